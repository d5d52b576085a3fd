"""What is committed is on the disks of a simulated cluster, of as many replicas as it must be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cluster.records.header import iter_headers
from local_cluster.replication.partition import Partition
from tests.sim.cluster.committed_log import CommittedLog
from tests.sim.cluster.names import Anomaly, At

if TYPE_CHECKING:
    from tests.sim.broker.sim_broker import SimBroker
    from tests.sim.cluster.world import SimWorld


def check_disks(world: SimWorld, at: At, committed: CommittedLog, partition: Partition) -> None:
    """More is committed: is it on enough disks, and on every in-sync replica's? Raises Anomaly."""
    state = world.state_in_zookeeper(at)
    assert state is not None
    holders = {
        broker.id
        for broker in world.brokers.values()
        for directory in broker.settings.log_dirs
        if _has(world, broker, f"{directory}/{at.topic}-{at.partition}/", committed)
    }
    lost = world.nemesis.without_power
    if lost is not None and lost.id in state.isr:
        # What its page cache held counts until the controller takes it out: Kafka's promise.
        holders.add(lost.id)
    # A leader goes by the replicas and the config that it knows of. A replica that was moved
    # off may have heard of it first, and deleted what the leader still counts.
    known = 1 if partition.in_sync is None else len(partition.in_sync.state.replicas)
    replicas = min(known, len(state.replicas))
    least = min(replicas, partition.log.config.min_insync_replicas)
    if len(holders) < least:
        raise Anomaly(f"{at}: committed with brokers {sorted(holders)} alone")
    if not set(state.isr) & set(state.replicas) <= holders:
        raise Anomaly(f"{at}: in sync are {state.isr}, but only {holders} have all committed")


def _has(world: SimWorld, broker: SimBroker, directory: str, committed: CommittedLog) -> bool:
    """Whether the segments there have these bytes, from where they begin on."""
    files, content = broker.disk.files, committed.content
    first = f"{directory}{0:020d}.log"
    if first in files:
        if _on_disk(world, broker, first).startswith(content):
            return True
    elif not committed.asked:
        return False
    segments = sorted(n for n in files if n.startswith(directory) and n.endswith(".log"))
    base = int(segments[0][len(directory) : -len(".log")]) if segments else -1
    if not 0 <= base <= committed.may_begin:
        return False
    found = b"".join(_on_disk(world, broker, each) for each in segments)
    # Below that nothing is read any more. A replica that diverged there need not be cut back: its
    # leader does not know any more what ended there (in Kafka neither).
    begin = max(base, committed.may_begin)
    expected = memoryview(bytes(content))[committed.position_of(begin) :]
    for position, header in iter_headers(found):
        if header.next_offset > begin:
            return found.startswith(expected, position)
    return not expected


def _on_disk(world: SimWorld, broker: SimBroker, path: str) -> bytes | bytearray:
    inode = broker.disk.files[path]
    if world.scenario.flush == "page_cache":
        return inode.content
    return inode.synced or b""
