"""Replicas on disks that fail: offline, reported, and served again when the disk is healed."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from local_cluster.controller.model.cluster_image import (
    ALL_WELL,
    BrokerEndpoints,
    ClusterImage,
    PartitionState,
    ReplicaReport,
    TopicState,
    difference,
    frozen_mapping,
)
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.controller.zk.coordination import CoordinationUnavailable
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.segment.segment import Segment
from local_cluster.log.state import checkpoints
from local_cluster.replication.offline_reporter import OfflineReporter
from local_cluster.replication.partition import Partition
from local_cluster.replication.replica_set import ReplicaSet
from local_cluster.replication.throttle import ReplicationThrottle
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.replicas import eventually
from tests.unit.local_cluster.log.directory.directory_samples import StandingClock
from tests.unit.local_cluster.log.samples import append, batch, flush

TOPIC_ID = uuid.UUID(int=1)
OTHER_ID = uuid.UUID(int=2)


class Fetching:
    def __init__(self) -> None:
        self.followed: set[int] = set()

    def follow(self, partition: Partition) -> None:
        self.followed.add(partition.partition)

    def unfollow(self, partition: Partition) -> None:
        self.followed.discard(partition.partition)


class Broker:
    """The replicas of broker 1 in directories a and b, and the metadata that it gets."""

    def __init__(self, root: Path) -> None:
        self.directories = LogStore(
            [root / "a", root / "b"], OsFiles(), broker_id=1, clock=StandingClock()
        )
        self.directories.open(cluster_id="c")
        self.cache = MetadataCache()
        self.fetching = Fetching()
        self.leaderships: list[tuple[int, bool]] = []
        self.replicas = ReplicaSet(
            broker_id=1,
            broker_config={},
            directories=self.directories,
            cache=self.cache,
            flusher_of=lambda _: None,
            clock=StandingClock(),
            throttle=ReplicationThrottle(1, {}, lambda: 0),
            fetching=self.fetching,
        )
        self.replicas.add_leadership_listener(
            lambda _, index, is_leader: self.leaderships.append((index, is_leader))
        )
        self._sequence = 0

    def apply(
        self,
        *leaders: int,
        epoch: int = 0,
        topic_id: uuid.UUID = TOPIC_ID,
        isr: tuple[int, ...] = (1, 2),
        deleted: bool = False,
        others: Mapping[str, uuid.UUID] = frozen_mapping({}),
    ) -> None:
        """Give topic t partitions with these leaders, on brokers 1 and 2; or delete it.

        `others` are topics like it, by name and id.
        """
        self._sequence += 1
        live = {n: BrokerEndpoints(n, None, {"P": ("h", n)}) for n in (1, 2)}
        partitions = {
            index: PartitionState(index, (1, 2), leader, epoch, isr, epoch)
            for index, leader in enumerate(leaders)
        }
        ids = {**others, "t": topic_id}
        topics = {name: TopicState(name, ids[name], partitions, {}) for name in sorted(ids)}
        deletions = {"t": topic_id} if deleted else {}
        image = ClusterImage(2, 1, self._sequence, live, {} if deleted else topics, deletions)
        self.replicas.apply(self.cache.apply(difference(None, image, -1)))

    def fail(self, index: int) -> None:
        self.directories.fail(self.directories.all[index], OSError(errno.EIO, "injected"))

    def close(self) -> None:
        for directory in self.directories.all:
            directory.close(clean=False)


def code_of(broker: Broker, index: int) -> ErrorCode:
    try:
        broker.replicas.get_leader("t", index)
    except KafkaError as error:
        return error.code
    return ErrorCode.none


async def test_a_topic_that_fails_keeps_no_other_from_being_led(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(tmp_path)
    follow = broker.replicas._apply_topic
    monkeypatch.setattr(
        broker.replicas,
        "_apply_topic",
        lambda topic: follow(topic) if topic.name == "t" else 1 / 0,
    )
    before, others = {"a": OTHER_ID}, {"z": uuid.UUID(int=3)}
    with pytest.raises(ExceptionGroup) as failed:
        broker.apply(1, others=before | others)
    assert [type(each) for each in failed.value.exceptions] == [ZeroDivisionError] * 2
    assert broker.leaderships == [(0, True)]
    broker.close()


async def test_a_failed_directory_takes_only_its_replicas_offline(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.apply(1, 1, 2, 2)
    assert broker.fetching.followed == {2, 3}
    leader = broker.replicas.get_leader("t", 0)
    append(leader.log, batch(2))
    waiting = leader.committed(2)
    broker.fail(0)  # partitions 0 and 2
    broker.replicas.take_failed_offline()
    with pytest.raises(KafkaError) as failed:
        await waiting
    assert failed.value.code is ErrorCode.kafka_storage_error
    assert [code_of(broker, index) for index in range(4)] == [
        ErrorCode.kafka_storage_error,
        ErrorCode.none,
        ErrorCode.kafka_storage_error,
        ErrorCode.not_leader_or_follower,
    ]
    with pytest.raises(KafkaError):
        broker.replicas.get_readable("t", 2)
    assert broker.fetching.followed == {3}
    assert broker.leaderships == [(0, True), (1, True), (0, False)]
    report = ReplicaReport(frozenset({("t", 0), ("t", 2)}))
    assert broker.replicas.report() == report
    # They stay offline after the next metadata, and new replicas go to the other disk.
    broker.apply(2, 1, 1, 2, 1, epoch=1)
    assert broker.replicas.report() == report
    home = broker.directories.of("t", 4)
    assert home is broker.directories.all[1]
    broker.close()
    healed = Broker(tmp_path)
    healed.apply(1, 1, 1, 1, epoch=2)
    assert healed.replicas.report() == ALL_WELL
    assert [code_of(healed, index) for index in range(4)] == [ErrorCode.none] * 4
    assert healed.replicas.get_leader("t", 0).log.log_end_offset == 2
    healed.close()


async def test_no_log_is_created_in_place_of_an_unreadable_one(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.apply(1, 1)
    broker.close()
    (tmp_path / "a" / checkpoints.META_PROPERTIES).write_bytes(b"\xff")
    without = Broker(tmp_path)
    without.apply(1, 1)
    assert without.replicas.report().offline == {("t", 0)}
    assert [code_of(without, index) for index in range(2)] == [
        ErrorCode.kafka_storage_error,
        ErrorCode.none,
    ]
    without.apply(1, 1, 1, epoch=1)
    assert without.replicas.report().offline == {("t", 0)}, "a new replica cannot lie there"
    without.close()


async def test_a_deletion_waits_for_the_directory(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.apply(1, 1)
    broker.fail(0)
    broker.replicas.take_failed_offline()
    broker.apply(deleted=True)
    assert broker.replicas.report().undeleted == {TOPIC_ID}
    assert not (tmp_path / "b" / "t-1").exists()
    broker.close()
    healed = Broker(tmp_path)
    healed.apply(deleted=True)
    assert healed.replicas.report() == ALL_WELL
    assert not (tmp_path / "a" / "t-0").exists()
    healed.apply(1, 1, topic_id=OTHER_ID)
    assert [code_of(healed, index) for index in range(2)] == [ErrorCode.none] * 2
    healed.close()


async def test_a_damaged_log_is_reported_until_it_is_fetched_again(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.apply(1)
    log = broker.replicas.get_leader("t", 0).log
    append(log, batch(1))
    flush(log)
    broker.directories.all[0].checkpoint({("t", 0): 1})
    path = Path(log.segments.active.log_path)
    broker.close()
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    again = Broker(tmp_path)
    again.apply(1, epoch=1)
    assert again.replicas.report().offline == {("t", 0)}
    assert code_of(again, 0) is ErrorCode.not_leader_or_follower
    # Its end says nothing of the partition: a consumer would take that for lost records.
    with pytest.raises(KafkaError) as refused:
        again.replicas.get_readable("t", 0)
    assert refused.value.code is ErrorCode.not_leader_or_follower
    again.apply(2, epoch=2, isr=(2,))
    assert again.fetching.followed == {0}
    assert again.replicas.report().offline == {("t", 0)}
    replica = again.replicas.get("t", 0)
    assert replica is not None
    replica.log.truncation.truncate_fully(0, 0)
    assert again.replicas.report() == ALL_WELL
    again.close()


async def test_a_report_is_repeated_until_zookeeper_accepts_it(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.apply(1, 1)
    announced: list[ReplicaReport] = []
    refusals = [CoordinationUnavailable("away")]

    async def announce() -> None:
        if refusals:
            raise refusals.pop()
        announced.append(broker.replicas.report())

    reporter = OfflineReporter(broker.replicas, announce)
    reporter.start()
    broker.fail(1)
    reporter.check_soon()
    await eventually(lambda: announced)
    assert announced == [ReplicaReport(frozenset({("t", 1)}))]
    await reporter.stop()
    broker.close()


async def test_a_deletion_that_a_disk_refuses_delays_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(tmp_path)
    broker.apply(1, 1)

    def refuse(*_: object) -> bool:
        raise KafkaError(ErrorCode.kafka_storage_error, "injected")

    with monkeypatch.context() as refusing:
        refusing.setattr(LogStore, "delete_topic", refuse)
        broker.apply(deleted=True)
        assert broker.replicas.report() == ReplicaReport(undeleted=frozenset({TOPIC_ID}))
        broker.replicas.resume()
        assert broker.replicas.report().undeleted
    assert len(list(broker.directories)) == 2
    broker.replicas.resume()
    assert broker.replicas.report() == ALL_WELL
    assert list(broker.directories) == []
    broker.close()


async def test_a_log_that_failed_in_a_truncation_is_opened_again_when_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(tmp_path)
    broker.apply(2, 2)
    follower = broker.replicas.get("t", 0)
    assert follower is not None
    append(follower.log, batch(3))

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "injected")

    with monkeypatch.context() as full:
        full.setattr(Segment, "create", refuse)
        with pytest.raises(KafkaError, match="cannot be truncated"):
            follower.log.truncation.truncate_fully(9, 0)
    assert follower.log.failure is not None
    broker.replicas.resume()
    assert broker.replicas.report() == ALL_WELL
    again = broker.replicas.get("t", 0)
    assert again is not None
    assert again.log is not follower.log
    assert broker.fetching.followed == {0, 1}
    assert again.log.failure is None
    broker.close()
