"""High watermark, parked acknowledgements and leadership, over a log double."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from local_cluster.controller.model.cluster_image import PartitionState
from local_cluster.replication.partition import Partition
from local_cluster.replication.partition_flushes import PartitionFlushes
from local_cluster.wire.errors import ErrorCode, KafkaError


class FakeLog:
    """Only what a Partition looks at; `written` and `flushed` are moved by the test."""

    def __init__(self) -> None:
        self.as_leader = self.reader = self
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.flushed_end_offset = 0
        self.reads: list[tuple[int, int]] = []

    def append(self, buffer: Any, headers: Any, *, leader_epoch: int, now_ms: int) -> None:
        self.log_end_offset += len(headers)

    def read(
        self, offset: int, *, bytes_max: int, offset_limit: int, at_least_one_batch: bool
    ) -> None:
        self.reads.append((offset, offset_limit))


class FakeFlusher:
    def __init__(self) -> None:
        self.requested: list[PartitionFlushes] = []

    def request(self, partition: PartitionFlushes) -> None:
        self.requested.append(partition)


def partition(flusher: FakeFlusher | None, log: FakeLog) -> Partition:
    made = Partition(
        "t",
        0,
        uuid.UUID(int=1),
        log,  # type: ignore[arg-type]
        flusher=flusher,
        now_ms=lambda: 0,
        high_watermark=0,
    )
    made.become_leader(0)
    return made


def append(target: Partition, count: int) -> None:
    target.append(bytearray(), [None] * count)  # type: ignore[list-item]


async def test_with_fsync_nothing_is_committed_before_the_flush() -> None:
    log, flusher = FakeLog(), FakeFlusher()
    subject = partition(flusher, log)
    append(subject, 3)
    waiting = subject.committed(3)
    assert (subject.high_watermark, waiting.done()) == (0, False)
    assert flusher.requested == [subject]
    log.flushed_end_offset = 2
    subject.flushed()
    assert (subject.high_watermark, waiting.done()) == (2, False)
    log.flushed_end_offset = 3
    subject.flushed()
    assert (subject.high_watermark, waiting.done()) == (3, True)


async def test_a_new_leader_does_not_know_the_end_before_it_committed_what_it_found() -> None:
    log = FakeLog()
    log.log_end_offset = 5
    subject = partition(FakeFlusher(), log)
    assert not subject.knows_commits
    append(subject, 2)
    log.flushed_end_offset = 4
    subject.flushed()
    assert not subject.knows_commits
    log.flushed_end_offset = 5
    subject.flushed()
    assert subject.knows_commits, "what came after it began to lead does not count"


async def test_with_page_cache_an_append_commits() -> None:
    subject = partition(None, FakeLog())
    append(subject, 3)
    assert subject.high_watermark == 3
    assert subject.committed(3).done()


class FakePeers:
    """Broker 1 among live ones; nothing ever lags."""

    broker_id = 1
    lag_ms_max = 1_000

    def monotonic_ms(self) -> int:
        return 0

    def broker_epochs(self) -> dict[int, int]:
        return {1: 10, 2: 20}

    def isr_may_change(self, partition: Partition) -> None:
        return


async def test_with_page_cache_an_append_commits_where_no_other_replica_is_in_sync() -> None:
    log = FakeLog()
    log.config = SimpleNamespace(min_insync_replicas=1)  # type: ignore[attr-defined]
    subject = Partition(
        "t",
        0,
        uuid.UUID(int=1),
        log,  # type: ignore[arg-type]
        flusher=None,
        now_ms=lambda: 0,
        high_watermark=0,
        peers=FakePeers(),
    )
    both = PartitionState(0, (1, 2), 1, 0, (1, 2), 1)
    subject.become_leader(0, both)
    append(subject, 2)
    assert subject.high_watermark == 0
    subject.follower_fetched(2, broker_epoch=20, end_offset=2, log_start_offset=0)
    assert subject.high_watermark == 2
    append(subject, 1)
    assert subject.high_watermark == 2, "the other one has not fetched it"
    waiting = subject.committed(3)
    subject.become_leader(1, both._replace(leader_epoch=1, isr=(1,), zk_version=2))
    assert waiting.done()
    append(subject, 1)
    assert subject.high_watermark == 4


async def test_readers_wake_when_the_high_watermark_moves_and_stop_there() -> None:
    log = FakeLog()
    subject = partition(FakeFlusher(), log)
    wakes: list[int] = []
    subject.watch(lambda: wakes.append(subject.high_watermark))
    append(subject, 2)
    assert wakes == []
    assert subject.read(0, bytes_max=9, offset_limit=0, at_least_one_batch=True) is None
    assert log.reads == [], "a reader at the limit does not reach the log"
    log.flushed_end_offset = 2
    subject.flushed()
    subject.flushed()
    assert wakes == [2], "woken once per move"


async def test_parked_acknowledgements_fail_when_leadership_is_lost() -> None:
    subject = partition(FakeFlusher(), FakeLog())
    append(subject, 1)
    waiting = subject.committed(1)
    subject.resign(1)
    error = waiting.exception()
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.not_leader_or_follower
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        append(subject, 1)


async def test_a_flush_that_ends_after_resigning_commits_nothing() -> None:
    log = FakeLog()
    subject = partition(FakeFlusher(), log)
    append(subject, 1)
    subject.resign(1)
    log.flushed_end_offset = 1
    subject.flushed()
    assert subject.high_watermark == 0


async def test_leader_epochs_fence_both_ways() -> None:
    subject = partition(None, FakeLog())
    subject.become_leader(5)
    subject.require_leader(5)
    subject.require_leader(-1)
    with pytest.raises(KafkaError, match="FENCED_LEADER_EPOCH"):
        subject.require_leader(4)
    with pytest.raises(KafkaError, match="UNKNOWN_LEADER_EPOCH"):
        subject.require_leader(6)


@pytest.mark.parametrize("offset", [-1, 4])
async def test_offsets_outside_the_log_are_out_of_range(offset: int) -> None:
    subject = partition(None, FakeLog())
    append(subject, 3)
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        subject.read(offset, bytes_max=9, offset_limit=3, at_least_one_batch=True)
