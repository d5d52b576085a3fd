"""What must hold in a simulated cluster, looked at from outside between two steps.

    invariant                                                                checked
    one leader per partition and epoch; leader epochs only grow              after every step
    only the elected controller writes states                                after every step
    the high watermark of a replica never goes back                          after every step
    what was committed once never changes, wherever it is seen               after every step
    no log is taken for damaged that nothing here damaged                    when it is opened
    what is committed is on the disks of as many replicas as it must be,
      and of every in-sync one (by ZooKeeper)                                whenever more is
    a leader of the newest epoch has all that is committed                   when it begins
    what is acknowledged is committed                                        when it is
    what a group committed last is what its coordinator answers              when it reads
    acknowledged records are there once, in order, at their offsets,
      and no others than those of the log's own producer                     at the end
    replicas are byte-identical, all are in sync, none is left over          at the end
    no transaction is open                                                   at the end

A log is what a topic id names: where a topic is deleted and made anew under the same name, what is
said here holds for each of them, and nothing of the one is ever seen in the other.
A topic that allows unclean elections may lose what was acknowledged, and only that is let pass.
"""

from __future__ import annotations

import uuid
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from local_cluster.controller import znodes
from local_cluster.controller.coordination import Znode
from local_cluster.controller.model import PartitionState
from local_cluster.records.batch import decode_batch
from local_cluster.records.header import iter_headers
from local_cluster.replication.partition import Partition

if TYPE_CHECKING:
    from .cluster_world import SimWorld
    from .sim_broker import SimBroker

READ_BYTES = 1 << 20
decode_topic = lru_cache(maxsize=64)(znodes.decode_topic)


class Anomaly(AssertionError):
    """The cluster broke a promise."""


class At(NamedTuple):
    """One partition."""

    topic: str
    partition: int


class Log(NamedTuple):
    """One partition of one topic among those that had its name."""

    at: At
    topic_id: uuid.UUID

    def __str__(self) -> str:
        return f"{self.at.topic}-{self.at.partition} of {self.topic_id}"


class _Seen(NamedTuple):
    """How far one replica was compared."""

    replica: Partition
    offset: int
    position: int
    """In the committed bytes."""


class ClusterChecks:
    """The judge of one play."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._leaders: dict[tuple[Log, int], int] = {}
        self.committed: dict[Log, bytearray] = {}
        """The bytes of the log below the highest high watermark seen."""
        self._committed_end: dict[Log, int] = {}
        self._seen: dict[tuple[int, At], _Seen] = {}
        """By broker."""
        self._led: set[tuple[int, int, Log, int]] = set()
        self.damaged: set[tuple[int, At]] = set()
        """Replicas, by broker, whose files somebody changed behind its back."""
        self._znodes: dict[At, Znode] = {}
        """The states that ZooKeeper was seen to have last."""
        self.looks = 0

    def look(self) -> None:
        """Between two steps."""
        self.looks += 1
        self._look_at_zookeeper()
        for broker in self._world.brokers.values():
            if broker.failure is not None:
                raise broker.failure
            if not broker.is_alive:
                continue
            for partition in broker.replicas:
                at = At(partition.topic, partition.partition)
                if partition.is_leader:
                    self._look_at_leader(broker, partition, at)
                if at.topic in self._world.unclean_topics:
                    continue
                seen = self._seen.get((broker.id, at))
                if seen is None or seen.replica is not partition:
                    if partition.log.corruption is not None and (broker.id, at) not in self.damaged:
                        raise Anomaly(f"{at}: sound, but {partition.log.corruption}")
                    seen = self._seen[broker.id, at] = _Seen(partition, 0, 0)
                if partition.high_watermark > seen.offset:
                    self._compare(broker, at, seen)
                elif partition.high_watermark < seen.offset and (broker.id, at) in self.damaged:
                    self._seen[broker.id, at] = _Seen(partition, 0, 0)
                elif partition.high_watermark < seen.offset:
                    raise Anomaly(
                        f"{at}: the high watermark at broker {broker.id} went back from "
                        f"{seen.offset} to {partition.high_watermark}"
                    )

    def _look_at_zookeeper(self) -> None:
        zookeeper = self._world.zookeeper
        if zookeeper.unfenced:
            raise Anomaly(f"deposed controllers wrote {zookeeper.unfenced}")
        for at in self._world.partitions:
            znode = zookeeper.tree.get(znodes.state_path(at.topic, at.partition))
            known = self._znodes.get(at)
            if znode is None or znode is known:
                continue
            self._znodes[at] = znode
            if known is None or known.created_zxid != znode.created_zxid:
                continue
            before, state = znodes.decode_state(known.payload), znodes.decode_state(znode.payload)
            if state.leader_epoch < before.leader_epoch or (
                state.leader_epoch == before.leader_epoch and state.leader != before.leader
            ):
                raise Anomaly(f"{at}: the leader epoch of {state} does not come after {before}")

    def acknowledged(self, log: Log, next_offset: int) -> None:
        """A producer was told that everything below an offset is committed."""
        if log.at.topic in self._world.unclean_topics:
            return
        if next_offset > self._committed_end.get(log, 0):
            raise Anomaly(f"{log}: offset {next_offset - 1} was acknowledged and is not committed")

    def _look_at_leader(self, broker: SimBroker, partition: Partition, at: At) -> None:
        epoch = partition.leader_epoch
        log = Log(at, partition.topic_id)
        leader = self._leaders.setdefault((log, epoch), broker.id)
        if leader != broker.id:
            raise Anomaly(f"{log}: brokers {leader} and {broker.id} lead in epoch {epoch}")
        term = (broker.id, broker.life, log, epoch)
        if term in self._led or at.topic in self._world.unclean_topics:
            return
        state = self._world.state_in_zookeeper(at)
        if state is None or (state.leader, state.leader_epoch) != (broker.id, epoch):
            return
        if self._world.topic_id(at.topic) != partition.topic_id:
            return
        self._led.add(term)
        committed = self.committed.get(log, bytearray())
        if read_log(partition, 0, partition.log.log_end_offset)[: len(committed)] != committed:
            raise Anomaly(f"{log}: broker {broker.id} leads in epoch {epoch} without all committed")

    def _compare(self, broker: SimBroker, at: At, seen: _Seen) -> None:
        partition = seen.replica
        fresh = read_log(partition, seen.offset, partition.high_watermark)
        log = Log(at, partition.topic_id)
        committed = self.committed.setdefault(log, bytearray())
        known = committed[seen.position : seen.position + len(fresh)]
        if known != fresh[: len(known)]:
            raise Anomaly(f"{log}: broker {broker.id} shows other records than were committed")
        self._seen[broker.id, at] = _Seen(
            partition, partition.high_watermark, seen.position + len(fresh)
        )
        if len(known) < len(fresh):
            committed += fresh[len(known) :]
            self._committed_end[log] = partition.high_watermark
            if self._world.living_topic_id(at.topic) == partition.topic_id:
                self._check_disks(at, committed, partition)

    def _check_disks(self, at: At, committed: bytearray, partition: Partition) -> None:
        """More is committed: is it on enough disks, and on every in-sync replica's?"""
        state = self._world.state_in_zookeeper(at)
        assert state is not None
        holders = {
            broker.id
            for broker in self._world.brokers.values()
            for directory in broker.settings.log_dirs
            if self._has(broker, f"{directory}/{at.topic}-{at.partition}/", committed)
        }
        lost = self._world.nemesis.without_power
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

    def _has(self, broker: SimBroker, directory: str, committed: bytearray) -> bool:
        """Whether the segments there begin with these bytes."""
        files = broker.disk.files
        first = f"{directory}{0:020d}.log"
        if first not in files:
            return False
        if self._on_disk(broker, first).startswith(committed):
            return True
        segments = sorted(n for n in files if n.startswith(directory) and n.endswith(".log"))
        return b"".join(self._on_disk(broker, each) for each in segments).startswith(committed)

    def _on_disk(self, broker: SimBroker, path: str) -> bytes | bytearray:
        inode = broker.disk.files[path]
        if self._world.scenario.flush == "page_cache":
            return inode.content
        return inode.synced or b""

    # -- after healing ----------------------------------------------------------------------

    def what_is_missing(self) -> str | None:
        """Why the healed cluster is not whole yet, None where it is."""
        for name in self._world.topic_names:
            if self._world.topic_id(name) is None:
                return f"topic {name} is not there"
            if znodes.delete_topic_path(name) in self._world.zookeeper.tree:
                return f"topic {name} is being deleted"
        for broker in self._world.brokers.values():
            for log in broker.log_directories:
                # Without partition.metadata, which the power took before the first flush, a log is
                # nobody's to delete; who is assigned it takes it over.
                if log.topic_id not in (None, self._world.topic_id(log.topic)):
                    return f"{log}: broker {broker.id} has that of topic id {log.topic_id}"
        for at in self._world.partitions_in_zookeeper():
            state = self._world.state_in_zookeeper(at)
            if state is None or state.leader < 0:
                return f"{at} has no leader"
            if sorted(state.isr) != sorted(state.replicas):
                return f"{at}: in sync are {state.isr} of {state.replicas}"
            if self._world.is_moving(at):
                return f"{at}: a move is under way"
            ends = set()
            for broker in self._world.brokers.values():
                partition = broker.replicas.get(*at)
                if broker.id not in state.replicas:
                    left = broker.log_directories.get(*at)
                    if partition is not None or (left is not None and left.topic_id is not None):
                        return f"{at}: broker {broker.id} has what was moved away"
                    continue
                if partition is None:
                    return f"{at}: broker {broker.id} has no replica"
                name = f"{at.topic}-{at.partition}"
                homes = [
                    each
                    for each in broker.settings.log_dirs
                    if f"{each}/{name}" in broker.disk.dirs
                ]
                if len(homes) != 1 or any(len(d.futures) for d in broker.log_directories.live):
                    return f"{at}: broker {broker.id} has it in {homes}, or makes a copy"
                ends.add(partition.log.log_end_offset)
                ends.add(partition.high_watermark)
            if len(ends) != 1:
                return f"{at}: the offsets are {sorted(ends)}"
        return self.open_transaction()

    def open_transaction(self) -> str | None:
        """Where a transaction holds readers back, None where none does."""
        for broker in self._world.brokers.values():
            for partition in broker.replicas:
                if partition.last_stable_offset != partition.high_watermark:
                    return f"{partition.log}: a transaction is open at broker {broker.id}"
        return None

    def judge(self) -> None:
        """Every acknowledged record once, in order, at its offset; logs equal."""
        for at in self._world.partitions_in_zookeeper():
            state = self._world.state_in_zookeeper(at)
            assert state is not None
            logs = set()
            for broker_id in state.replicas:
                partition = self._world.brokers[broker_id].replicas.get(*at)
                assert partition is not None
                logs.add(read_log(partition, 0, partition.log.log_end_offset))
            if len(logs) != 1:
                raise Anomaly(f"{at}: the replicas differ at the end")
        for producer in self._world.producers:
            if producer.at.topic in self._world.unclean_topics:
                continue
            log = producer.log
            view = memoryview(self.committed.get(log, bytearray()))
            found = [
                (record.value, record.offset)
                for start, header in iter_headers(view)
                for record in decode_batch(view, start, header)
            ]
            values = [value for value, _ in found]
            if len(set(values)) != len(values):
                raise Anomaly(f"{log}: records are there twice")
            offsets = {value: offset for value, offset in found if value is not None}
            for value, offset in producer.acknowledged.items():
                if offsets.get(value) != offset:
                    raise Anomaly(
                        f"{log}: {value!r} was acknowledged at {offset}, is at {offsets.get(value)}"
                    )
            if values != [value for value in producer.sent if value in offsets]:
                raise Anomaly(f"{log}: what is there is not what its producer sent, in its order")


def state_of(world: SimWorld, at: At) -> PartitionState | None:
    """As ZooKeeper has it, with the replicas of the topic's znode; None where it has none."""
    znode = world.zookeeper.tree.get(znodes.state_path(at.topic, at.partition))
    topic = world.zookeeper.tree.get(znodes.topic_path(at.topic))
    if znode is None or topic is None:
        return None
    replicas = decode_topic(topic.payload).replicas.get(at.partition)
    if replicas is None:
        return None
    state = znodes.decode_state(znode.payload)
    return PartitionState(
        at.partition, replicas, state.leader, state.leader_epoch, tuple(state.isr), znode.version
    )


def read_log(partition: Partition, offset: int, end: int) -> bytes:
    """Whole batches of the log from an offset up to another."""
    parts = []
    while offset < end:
        piece = partition.log.read(
            offset, bytes_max=READ_BYTES, offset_limit=end, at_least_one_batch=True
        )
        if piece is None or not piece.size_bytes:
            break
        parts.append(piece.read())
        offset = piece.next_offset
    return b"".join(parts)
