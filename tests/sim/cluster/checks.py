"""What must hold in a simulated cluster, checked from outside between two steps.

    invariant                                                                checked
    one leader per partition and epoch; leader epochs only grow              after every step
    only the elected controller writes states                                after every step
    the high watermark of a replica never goes back                          after every step
    committed records never change, on any replica                           after every step
    no log counts as damaged unless a test damaged it, or a full disk
      refused half of a truncation                                           when it is opened
    committed records are on the disks of enough replicas, and of every
      ISR member (by ZooKeeper)                                              when committed
    a leader of the newest epoch has all committed records                   when it starts
    acknowledged records are committed                                       when acknowledged
    the coordinator of a group answers its last committed offset             when it reads
    acknowledged records are there once, in order, at their offsets, and
      no others than those of the log's own producer                         at the end
    replicas are byte-identical, all are in sync, none is left over          at the end
    no transaction is open                                                   at the end
    a log start is never above the requested deletions or its high
      watermark; it goes back only if the replica starts over                after every step
    no follower's log starts before its leader's                             at the end

Where records were deleted, a replica has the batches from its own log start on, and the above holds
for those. The checks keep every log from its first record on. As in Kafka, a follower may
become leader that missed a deletion, or lost power before its checkpoint: the records are back, and
other replicas have higher log starts. A replica that starts over has no records, and its high
watermark goes back with it.

A log is identified by its topic id. If a topic is deleted and re-created under the same name, the
invariants hold for each of them, and no record of one is ever seen in the other. Only a topic that
allows unclean elections may lose acknowledged records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from local_cluster.controller.model import topic_znodes, znode_paths
from local_cluster.controller.zk.coordination import Znode
from local_cluster.replication.partition import Partition
from tests.sim.broker.sim_broker import SimBroker
from tests.sim.cluster.committed_log import CommittedLog
from tests.sim.cluster.disk_checks import check_disks
from tests.sim.cluster.names import Anomaly, At, Log
from tests.sim.cluster.producer import SimProducer
from tests.sim.cluster.sim_cluster import SimCluster

READ_BYTES = 1 << 20
CUT_REFUSED = "cannot be truncated"
"""The first words of a log's failure when the disk refused a truncation."""


class _Compared(NamedTuple):
    """How far one replica was compared."""

    replica: Partition
    offset: int
    log_start: int
    base: int
    """Base offset of the first segment; it differs after the replica started over."""


class ClusterChecks:
    """The judge of one play."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._leaders: dict[tuple[Log, int], int] = {}
        self.committed: dict[Log, CommittedLog] = {}
        self._seen: dict[tuple[int, At], _Compared] = {}
        """By broker."""
        self._led: set[tuple[int, int, Log, int]] = set()
        self.damaged: set[tuple[int, At]] = set()
        """(broker, partition) of replicas whose files a test damaged."""
        self._znodes: dict[At, Znode] = {}
        """The state znodes that were seen last."""
        self.looks = 0

    def look(self) -> None:
        """Check everything; called between two steps."""
        self.looks += 1
        self._check_zookeeper()
        for broker in self._cluster.brokers.values():
            if broker.failure is not None:
                raise broker.failure
            if not broker.is_alive:
                continue
            for partition in broker.replicas:
                at = At(partition.topic, partition.partition)
                if partition.is_leader:
                    self._check_leader(broker, partition, at)
                if at.topic in self._cluster.unclean_topics:
                    continue
                self._check_replica(broker, partition, at)

    def _check_replica(self, broker: SimBroker, partition: Partition, at: At) -> None:
        seen = self._seen.get((broker.id, at))
        log = partition.log
        start = (log.log_start_offset, log.segments.first_base_offset)
        is_new = seen is None or seen.replica is not partition
        if is_new and log.corruption is not None and not self._was_damaged(broker, at, seen):
            raise Anomaly(f"{at}: not damaged, but {log.corruption}")
        if is_new or seen is None or seen[2:] != start:
            seen = self._seen[broker.id, at] = self._start(broker, partition, at, seen)
        if partition.high_watermark > seen.offset:
            self._compare(broker, at, seen)
        elif partition.high_watermark < seen.offset and (broker.id, at) in self.damaged:
            self._seen[broker.id, at] = _Compared(partition, log.log_start_offset, *start)
        elif partition.high_watermark < seen.offset:
            raise Anomaly(
                f"{at}: the high watermark at broker {broker.id} went back from "
                f"{seen.offset} to {partition.high_watermark}"
            )

    def _was_damaged(self, broker: SimBroker, at: At, seen: _Compared | None) -> bool:
        """Return whether a test damaged the files, or a full disk refused half of a truncation:
        the checkpoints then hold offsets from before it."""
        if (broker.id, at) in self.damaged:
            return True
        if seen is None:
            return False
        former = seen.replica.log
        was_refused = (former.failure or "").startswith(CUT_REFUSED)
        return was_refused or former.corruption is not None

    def _start(
        self, broker: SimBroker, partition: Partition, at: At, seen: _Compared | None
    ) -> _Compared:
        """Start to compare a new replica, or one whose log start changed."""
        start = partition.log.log_start_offset, partition.log.segments.first_base_offset
        log_start, base = start
        start_offset_max = self.committed_of(Log(at, partition.topic_id)).start_offset_max
        if not base <= log_start <= min(start_offset_max, partition.high_watermark):
            raise Anomaly(
                f"{at}: the log of broker {broker.id} starts at {log_start}, in segment {base}; "
                f"deletion was requested up to {start_offset_max}, the high watermark is "
                f"{partition.high_watermark}"
            )
        is_same = seen is not None and seen.replica is partition and seen.base == base
        if seen is None or not is_same:
            return _Compared(partition, log_start, *start)
        if log_start < seen.log_start and (broker.id, at) not in self.damaged:
            raise Anomaly(
                f"{at}: the log start at broker {broker.id} went back from "
                f"{seen.log_start} to {log_start}"
            )
        return _Compared(partition, seen.offset, *start)

    def committed_of(self, log: Log) -> CommittedLog:
        """Return the committed records of a log so far."""
        return self.committed.setdefault(log, CommittedLog())

    def _check_zookeeper(self) -> None:
        zookeeper = self._cluster.zookeeper
        if zookeeper.unfenced:
            raise Anomaly(f"deposed controllers wrote {zookeeper.unfenced}")
        for at in self._cluster.partitions:
            znode = zookeeper.tree.get(znode_paths.state_path(at.topic, at.partition))
            known = self._znodes.get(at)
            if znode is None or znode is known:
                continue
            self._znodes[at] = znode
            if known is None or known.created_zxid != znode.created_zxid:
                continue
            before, state = (
                topic_znodes.decode_state(known.payload),
                topic_znodes.decode_state(znode.payload),
            )
            if state.leader_epoch < before.leader_epoch or (
                state.leader_epoch == before.leader_epoch and state.leader != before.leader
            ):
                raise Anomaly(f"{at}: the leader epoch of {state} does not come after {before}")

    def acknowledged(self, log: Log, next_offset: int) -> None:
        """Check that everything below an acknowledged offset is committed."""
        if log.at.topic in self._cluster.unclean_topics:
            return
        if next_offset > self.committed_of(log).end_offset:
            raise Anomaly(f"{log}: offset {next_offset - 1} was acknowledged and is not committed")

    def _check_leader(self, broker: SimBroker, partition: Partition, at: At) -> None:
        epoch = partition.leader_epoch
        log = Log(at, partition.topic_id)
        leader = self._leaders.setdefault((log, epoch), broker.id)
        if leader != broker.id:
            raise Anomaly(f"{log}: brokers {leader} and {broker.id} lead in epoch {epoch}")
        term = (broker.id, broker.life, log, epoch)
        if term in self._led or at.topic in self._cluster.unclean_topics:
            return
        state = self._cluster.state_in_zookeeper(at)
        if state is None or (state.leader, state.leader_epoch) != (broker.id, epoch):
            return
        if self._cluster.topic_id(at.topic) != partition.topic_id:
            return
        self._led.add(term)
        committed, log_start = self.committed_of(log), partition.log.log_start_offset
        must_have = committed.content[committed.position_of(log_start) :]
        has = read_log(partition, log_start, partition.log.log_end_offset)
        if has[: len(must_have)] != must_have:
            raise Anomaly(f"{log}: broker {broker.id} leads in epoch {epoch} without all committed")

    def _compare(self, broker: SimBroker, at: At, seen: _Compared) -> None:
        partition = seen.replica
        log = Log(at, partition.topic_id)
        committed = self.committed_of(log)
        start = max(seen.offset, seen.log_start)
        fresh = read_log(partition, start, partition.high_watermark)
        position = committed.position_of(start)
        known = committed.content[position : position + len(fresh)]
        if start > committed.end_offset or known != fresh[: len(known)]:
            raise Anomaly(f"{log}: broker {broker.id} shows other records than the committed ones")
        self._seen[broker.id, at] = seen._replace(offset=partition.high_watermark)
        if len(known) < len(fresh):
            committed.extend(fresh[len(known) :], partition.high_watermark)
            if self._cluster.living_topic_id(at.topic) == partition.topic_id:
                check_disks(self._cluster, at, committed, partition)

    # -- after healing ----------------------------------------------------------------------

    def what_is_missing(self) -> str | None:
        """Return why the cluster has not recovered yet, None if it has."""
        for name in self._cluster.topic_names:
            if self._cluster.topic_id(name) is None:
                return f"topic {name} does not exist"
            if znode_paths.delete_topic_path(name) in self._cluster.zookeeper.tree:
                return f"topic {name} is being deleted"
        for broker in self._cluster.brokers.values():
            for log in broker.log_directories:
                # A log whose partition.metadata was lost with the power is not deleted; the broker
                # that is assigned the partition takes it over.
                if log.topic_id not in (None, self._cluster.topic_id(log.topic)):
                    return f"{log}: broker {broker.id} has a log of topic id {log.topic_id}"
        for at in self._cluster.partitions_in_zookeeper():
            state = self._cluster.state_in_zookeeper(at)
            if state is None or state.leader < 0:
                return f"{at} has no leader"
            if sorted(state.isr) != sorted(state.replicas):
                return f"{at}: the ISR is {state.isr} of {state.replicas}"
            if self._cluster.is_reassigning(at):
                return f"{at}: a reassignment is in progress"
            ends = set()
            starts: dict[int, int] = {}
            for broker in self._cluster.brokers.values():
                partition = broker.replicas.get(*at)
                if broker.id not in state.replicas:
                    left = broker.log_directories.get(*at)
                    if partition is not None or (left is not None and left.topic_id is not None):
                        return f"{at}: broker {broker.id} still has a replica that was moved away"
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
                    return f"{at}: broker {broker.id} has it in {homes}, or copies it"
                ends.add(partition.log.log_end_offset)
                ends.add(partition.high_watermark)
                starts[broker.id] = partition.log.log_start_offset
            if len(ends) != 1:
                return f"{at}: the offsets are {sorted(ends)}"
            if min(starts.values()) < starts[state.leader]:
                return f"{at}: the logs start at {starts}, and broker {state.leader} leads"
        return self.open_transaction()

    def open_transaction(self) -> str | None:
        """Return where a transaction is open, None if none is."""
        for broker in self._cluster.brokers.values():
            for partition in broker.replicas:
                if partition.last_stable_offset != partition.high_watermark:
                    return f"{partition.log}: a transaction is open at broker {broker.id}"
        return None

    def judge(self, producers: Sequence[SimProducer]) -> None:
        """Check that replicas are equal, and acknowledged records there once, in order."""
        for at in self._cluster.partitions_in_zookeeper():
            state = self._cluster.state_in_zookeeper(at)
            assert state is not None
            replicas = []
            for broker_id in state.replicas:
                partition = self._cluster.brokers[broker_id].replicas.get(*at)
                assert partition is not None
                replicas.append(partition)
            start = max(partition.log.log_start_offset for partition in replicas)
            if len({read_log(each, start, each.log.log_end_offset) for each in replicas}) != 1:
                raise Anomaly(f"{at}: the replicas differ at the end")
        for producer in producers:
            if producer.at.topic in self._cluster.unclean_topics:
                continue
            log = producer.log
            found = self.committed_of(log).records()
            values = [value for _, value in found]
            if len(set(values)) != len(values):
                raise Anomaly(f"{log}: records are duplicated")
            offsets = {value: offset for offset, value in found if value is not None}
            for value, offset in producer.acknowledged.items():
                if offsets.get(value) != offset:
                    raise Anomaly(
                        f"{log}: {value!r} was acknowledged at {offset}, is at {offsets.get(value)}"
                    )
            if values != [value for value in producer.sent if value in offsets]:
                raise Anomaly(f"{log}: the records are not those of its producer, in their order")


def read_log(partition: Partition, offset: int, end: int) -> bytes:
    """Return whole batches of the log between two offsets."""
    parts = []
    while offset < end:
        piece = partition.log.reader.read(
            offset, bytes_max=READ_BYTES, offset_limit=end, at_least_one_batch=True
        )
        if piece is None or not piece.size_bytes:
            break
        parts.append(piece.read())
        offset = piece.next_offset
    return b"".join(parts)
