"""Checks that committed records are on the disks of enough replicas of a simulated cluster."""

from __future__ import annotations

from local_cluster.records.header import iter_headers
from local_cluster.replication.partition import Partition
from tests.sim.broker.sim_broker import SimBroker
from tests.sim.cluster.committed_log import CommittedLog
from tests.sim.cluster.names import Anomaly, At
from tests.sim.cluster.sim_cluster import SimCluster


def check_disks(cluster: SimCluster, at: At, committed: CommittedLog, partition: Partition) -> None:
    """Check new committed records: on enough disks, and on that of every ISR member?

    Raises Anomaly.
    """
    state = cluster.state_in_zookeeper(at)
    assert state is not None
    holders = {
        broker.id
        for broker in cluster.brokers.values()
        for directory in broker.settings.log_dirs
        if _has(cluster, broker, f"{directory}/{at.topic}-{at.partition}/", committed)
    }
    lost = cluster.without_power
    if lost is not None and lost.id in state.isr:
        # Its page cache counts until the controller shrinks the ISR: that is Kafka's promise.
        holders.add(lost.id)
    # A leader uses the replicas and the config that it knows. A replica that was reassigned away
    # may know it earlier, and have deleted records that the leader still counts.
    known = 1 if partition.in_sync is None else len(partition.in_sync.state.replicas)
    replicas = min(known, len(state.replicas))
    least = min(replicas, partition.log.config.min_insync_replicas)
    if len(holders) < least:
        raise Anomaly(f"{at}: committed, but only on the disks of brokers {sorted(holders)}")
    if not set(state.isr) & set(state.replicas) <= holders:
        raise Anomaly(
            f"{at}: the ISR is {state.isr}, but only {holders} have all committed records"
        )


def _has(cluster: SimCluster, broker: SimBroker, directory: str, committed: CommittedLog) -> bool:
    """Return whether the segments there have the committed bytes, from their log start on."""
    files, content = broker.disk.files, committed.content
    first = f"{directory}{0:020d}.log"
    if first in files:
        if _on_disk(cluster, broker, first).startswith(content):
            return True
    elif not committed.requested:
        return False
    segments = sorted(n for n in files if n.startswith(directory) and n.endswith(".log"))
    base = int(segments[0][len(directory) : -len(".log")]) if segments else -1
    if not 0 <= base <= committed.start_offset_max:
        return False
    found = b"".join(_on_disk(cluster, broker, each) for each in segments)
    # No record below that is read. A replica that diverged there need not truncate: its leader has
    # no leader epochs from before its log start (in Kafka neither).
    begin = max(base, committed.start_offset_max)
    expected = memoryview(bytes(content))[committed.position_of(begin) :]
    for position, header in iter_headers(found):
        if header.next_offset > begin:
            return found.startswith(expected, position)
    return not expected


def _on_disk(cluster: SimCluster, broker: SimBroker, path: str) -> bytes | bytearray:
    inode = broker.disk.files[path]
    if cluster.scenario.flush == "page_cache":
        return inode.content
    return inode.synced or b""
