"""Which replica a consumer reads from (KIP-392). Pure.

With `replica.selector.class` set to Kafka's RackAwareReplicaSelector, a consumer that names its
rack is sent to an in-sync replica in that rack: to the leader if it is there, else to the one with
the highest log end offset. Otherwise it reads from the leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from local_cluster.replication.in_sync import InSyncReplicas

SELECTOR_CONFIG: Final = "replica.selector.class"
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
THE_LEADER: Final = -1


def preferred_replica(
    in_sync: InSyncReplicas,
    leader_id: int,
    rack_id: str,
    racks: Mapping[int, str | None],
    fetch_offset: int,
) -> int:
    """Return the broker to read from, THE_LEADER for the leader.

    `racks` are the racks of the live brokers.
    """
    if not rack_id or racks.get(leader_id) == rack_id:
        return THE_LEADER
    candidates = {
        replica: follower.log_end_offset
        for replica, follower in in_sync.followers.items()
        if replica in in_sync.state.isr
        and racks.get(replica) == rack_id
        and follower.log_start_offset <= fetch_offset <= follower.log_end_offset
    }
    return max(candidates, key=lambda replica: (candidates[replica], -replica), default=THE_LEADER)
