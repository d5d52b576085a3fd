"""What must hold in a simulated cluster, looked at from outside between two steps.

    invariant                                                                checked
    one leader per partition and epoch; leader epochs only grow              after every step
    only the elected controller writes states                                after every step
    the high watermark of a replica never goes back                          after every step
    what was committed once never changes, wherever it is seen               after every step
    no log is taken for damaged that nothing here damaged, and that no full
      disk refused half of a cut                                             when it is opened
    what is committed is on the disks of as many replicas as it must be,
      and of every in-sync one (by ZooKeeper)                                whenever more is
    a leader of the newest epoch has all that is committed                   when it begins
    what is acknowledged is committed                                        when it is
    what a group committed last is what its coordinator answers              when it reads
    acknowledged records are there once, in order, at their offsets,
      and no others than those of the log's own producer                     at the end
    replicas are byte-identical, all are in sync, none is left over          at the end
    no transaction is open                                                   at the end
    no log begins after what was asked to be deleted, nor after its high
      watermark; where it begins goes back only where it begins anew         after every step
    no follower's log begins before its leader's                             at the end

Where records were deleted a replica has what begins with the batch of its own log start, and from
there on all of the above holds. The checks keep what they saw of a log from its first record on. As
in Kafka, a follower may come to lead that did not hear of a deletion, or that lost power before its
checkpoint: then records are back, and others' logs begin later than its own. A replica that begins
anew has nothing, and its high watermark goes along with it.

A log is what a topic id names: where a topic is deleted and made anew under the same name, what is
said here holds for each of them, and nothing of the one is ever seen in the other.
A topic that allows unclean elections may lose what was acknowledged, and only that is let pass.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from local_cluster.controller.model import znodes
from local_cluster.controller.model.cluster_image import PartitionState
from local_cluster.controller.zk.coordination import Znode
from local_cluster.replication.partition import Partition
from tests.sim.cluster.committed import CommittedLog
from tests.sim.cluster.disks import check_disks
from tests.sim.cluster.names import Anomaly, At, Log

if TYPE_CHECKING:
    from tests.sim.broker.sim_broker import SimBroker
    from tests.sim.cluster.world import SimWorld

READ_BYTES = 1 << 20
CUT_REFUSED = "cannot be truncated"
"""How the failure of a log begins that the disk refused in a cut."""
decode_topic = lru_cache(maxsize=64)(znodes.decode_topic)


class _Seen(NamedTuple):
    """How far one replica was compared."""

    replica: Partition
    offset: int
    log_start: int
    base: int
    """Of the first segment: another one where the replica began anew."""


class ClusterChecks:
    """The judge of one play."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._leaders: dict[tuple[Log, int], int] = {}
        self.committed: dict[Log, CommittedLog] = {}
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
                self._look_at_replica(broker, partition, at)

    def _look_at_replica(self, broker: SimBroker, partition: Partition, at: At) -> None:
        seen = self._seen.get((broker.id, at))
        log = partition.log
        begins = (log.log_start_offset, log.segments.first_base_offset)
        is_new = seen is None or seen.replica is not partition
        if is_new and log.corruption is not None and not self._was_damaged(broker, at, seen):
            raise Anomaly(f"{at}: sound, but {log.corruption}")
        if is_new or seen is None or seen[2:] != begins:
            seen = self._seen[broker.id, at] = self._begin(broker, partition, at, seen)
        if partition.high_watermark > seen.offset:
            self._compare(broker, at, seen)
        elif partition.high_watermark < seen.offset and (broker.id, at) in self.damaged:
            self._seen[broker.id, at] = _Seen(partition, log.log_start_offset, *begins)
        elif partition.high_watermark < seen.offset:
            raise Anomaly(
                f"{at}: the high watermark at broker {broker.id} went back from "
                f"{seen.offset} to {partition.high_watermark}"
            )

    def _was_damaged(self, broker: SimBroker, at: At, seen: _Seen | None) -> bool:
        """Whether the files were changed behind the broker's back, or by a cut that a full disk
        refused half-way: the checkpoints tell of what was there before it."""
        if (broker.id, at) in self.damaged:
            return True
        if seen is None:
            return False
        former = seen.replica.log
        was_refused = (former.failure or "").startswith(CUT_REFUSED)
        return was_refused or former.corruption is not None

    def _begin(self, broker: SimBroker, partition: Partition, at: At, seen: _Seen | None) -> _Seen:
        """A replica that was not looked at yet, or whose log begins elsewhere than it did."""
        begins = partition.log.log_start_offset, partition.log.segments.first_base_offset
        log_start, base = begins
        may_begin = self.committed_of(Log(at, partition.topic_id)).may_begin
        if not base <= log_start <= min(may_begin, partition.high_watermark):
            raise Anomaly(
                f"{at}: the log of broker {broker.id} begins at {log_start}, in a segment of "
                f"{base}; {may_begin} was asked for, the high watermark is "
                f"{partition.high_watermark}"
            )
        is_same = seen is not None and seen.replica is partition and seen.base == base
        if seen is None or not is_same:
            return _Seen(partition, log_start, *begins)
        if log_start < seen.log_start and (broker.id, at) not in self.damaged:
            raise Anomaly(
                f"{at}: the log start at broker {broker.id} went back from "
                f"{seen.log_start} to {log_start}"
            )
        return _Seen(partition, seen.offset, *begins)

    def committed_of(self, log: Log) -> CommittedLog:
        """What was committed of a log so far."""
        return self.committed.setdefault(log, CommittedLog())

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
        if next_offset > self.committed_of(log).end_offset:
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
        committed, log_start = self.committed_of(log), partition.log.log_start_offset
        must_have = committed.content[committed.position_of(log_start) :]
        has = read_log(partition, log_start, partition.log.log_end_offset)
        if has[: len(must_have)] != must_have:
            raise Anomaly(f"{log}: broker {broker.id} leads in epoch {epoch} without all committed")

    def _compare(self, broker: SimBroker, at: At, seen: _Seen) -> None:
        partition = seen.replica
        log = Log(at, partition.topic_id)
        committed = self.committed_of(log)
        start = max(seen.offset, seen.log_start)
        fresh = read_log(partition, start, partition.high_watermark)
        position = committed.position_of(start)
        known = committed.content[position : position + len(fresh)]
        if start > committed.end_offset or known != fresh[: len(known)]:
            raise Anomaly(f"{log}: broker {broker.id} shows other records than were committed")
        self._seen[broker.id, at] = seen._replace(offset=partition.high_watermark)
        if len(known) < len(fresh):
            committed.extend(fresh[len(known) :], partition.high_watermark)
            if self._world.living_topic_id(at.topic) == partition.topic_id:
                check_disks(self._world, at, committed, partition)

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
            starts: dict[int, int] = {}
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
                starts[broker.id] = partition.log.log_start_offset
            if len(ends) != 1:
                return f"{at}: the offsets are {sorted(ends)}"
            if min(starts.values()) < starts[state.leader]:
                return f"{at}: the logs begin at {starts}, and broker {state.leader} leads"
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
            replicas = []
            for broker_id in state.replicas:
                partition = self._world.brokers[broker_id].replicas.get(*at)
                assert partition is not None
                replicas.append(partition)
            start = max(partition.log.log_start_offset for partition in replicas)
            if len({read_log(each, start, each.log.log_end_offset) for each in replicas}) != 1:
                raise Anomaly(f"{at}: the replicas differ at the end")
        for producer in self._world.producers:
            if producer.at.topic in self._world.unclean_topics:
                continue
            log = producer.log
            found = self.committed_of(log).records()
            values = [value for _, value in found]
            if len(set(values)) != len(values):
                raise Anomaly(f"{log}: records are there twice")
            offsets = {value: offset for offset, value in found if value is not None}
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
        piece = partition.log.reader.read(
            offset, bytes_max=READ_BYTES, offset_limit=end, at_least_one_batch=True
        )
        if piece is None or not piece.size_bytes:
            break
        parts.append(piece.read())
        offset = piece.next_offset
    return b"".join(parts)
