"""Groups of the classic protocol: members join, and the leader assigns.

Reading order:

- `classic_fsm`: the five states
- `group`: one group with its members
- `rebalance`: the steps of a rebalance, and expired members
- `membership`: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
- `subscription`: the topics in the metadata of consumers
"""
