"""Which replica a consumer reads from (KIP-392). Pure.

With `replica.selector.class` set to Kafka's RackAwareReplicaSelector a consumer that names its rack
is sent to an in-sync replica in that rack, the leader first and then the one that has most; without
it, or where there is none, it reads from the leader.
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
    """The broker to read from, THE_LEADER where that is the one that was asked.

    `racks` are those of the live brokers.
    """
    if not rack_id or racks.get(leader_id) == rack_id:
        return THE_LEADER
    able = {
        replica: progress.end_offset
        for replica, progress in in_sync.followers.items()
        if replica in in_sync.state.isr
        and racks.get(replica) == rack_id
        and progress.log_start_offset <= fetch_offset <= progress.end_offset
    }
    return max(able, key=lambda replica: (able[replica], -replica), default=THE_LEADER)
