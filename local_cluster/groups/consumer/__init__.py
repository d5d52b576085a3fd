"""Groups of the consumer protocol (KIP-848): the coordinator assigns, members reconcile.

Reading order:

- `model`: members, assignments, epochs
- `requests`, `records`: heartbeats, and the stored records
- `group_configs`: the settings of single groups
- `topics`: the topics of the cluster
- `consumer_group`: one group, changed by records alone
- `assignors`: `uniform` and `range`
- `reconcile`: one member from its current assignment to its target
- `step`: one step on a group: epochs, targets, timers
- `heartbeat`: what a heartbeat does
- `embedded_protocol`, `classic_members`: members that use the classic protocol
- `shard_groups`: the consumer groups of one partition
"""
