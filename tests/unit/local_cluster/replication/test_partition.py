"""High watermark, delayed produces and leadership of one replica, on a simulated disk."""

from __future__ import annotations

from functools import partial

import pytest

from local_cluster.controller.model.cluster_image import PartitionState
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.partition.batch_checks import check_produced
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.segment.segment_file import SegmentFile
from local_cluster.replication.in_sync import LiveBrokers
from local_cluster.replication.log_flushes import LogFlushes
from local_cluster.replication.partition import Partition
from local_cluster.replication.peers import Peers
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.broker.sim_disk import SimDisk
from tests.unit.local_cluster.log.samples import NOW_MS, TOPIC_ID, batch, flush


class Flusher:
    """Records the requests. The test flushes."""

    def __init__(self) -> None:
        self.requested: list[LogFlushes] = []

    def request(self, flushes: LogFlushes) -> None:
        self.requested.append(flushes)


class TwoPeers:
    """Brokers 1, which is this one, and 2. Nothing ever lags."""

    broker_id = 1

    def monotonic_ms(self) -> int:
        return 0

    def live(self) -> LiveBrokers:
        return LiveBrokers(0, 1_000, {1: 10, 2: 20})

    def isr_may_expand(self) -> None:
        return


def new_log() -> PartitionLog:
    return PartitionLog.create(
        SimDisk(), "/t-0", "t", 0, LogConfig(), now_ms=NOW_MS, topic_id=TOPIC_ID
    )


def partition_of(
    log: PartitionLog, flusher: Flusher | None, peers: Peers | None = None
) -> Partition:
    return Partition(
        "t",
        0,
        TOPIC_ID,
        log,
        flusher=flusher,
        now_ms=lambda: NOW_MS,
        high_watermark=0,
        peers=peers,
    )


def leading(flusher: Flusher | None, log: PartitionLog | None = None) -> Partition:
    partition = partition_of(log or new_log(), flusher)
    partition.become_leader(0)
    return partition


def append(partition: Partition, count: int) -> None:
    records = batch(count)
    partition.append(records, check_produced(records, batches_max=1, allow_transactional=True))


def flush_now(partition: Partition) -> None:
    flush(partition.log)
    partition.flushes.flushed()


async def test_with_fsync_nothing_is_committed_before_the_flush() -> None:
    flusher = Flusher()
    partition = leading(flusher)
    append(partition, 2)
    waiting = partition.committed(3)
    assert (partition.high_watermark, waiting.done()) == (0, False)
    assert flusher.requested == [partition.flushes]
    flush_now(partition)
    assert (partition.high_watermark, waiting.done()) == (2, False)
    append(partition, 1)
    flush_now(partition)
    assert (partition.high_watermark, waiting.done()) == (3, True)


async def test_a_new_leader_does_not_know_the_end_before_it_committed_what_it_found() -> None:
    log = new_log()
    before = leading(Flusher(), log)
    append(before, 4)
    flush(log)
    append(before, 1)
    partition = leading(Flusher(), log)
    append(partition, 2)
    assert partition.high_watermark == 4
    assert not partition.has_committed_epoch_start
    flush_now(partition)
    assert partition.has_committed_epoch_start


async def test_records_after_the_epoch_start_do_not_delay_its_commit() -> None:
    log = new_log()
    append(leading(Flusher(), log), 5)
    flush(log)
    partition = leading(Flusher(), log)
    append(partition, 2)
    assert partition.high_watermark == 5
    assert partition.has_committed_epoch_start


async def test_with_page_cache_an_append_commits() -> None:
    partition = leading(None)
    append(partition, 3)
    assert partition.high_watermark == 3
    assert partition.committed(3).done()


async def test_with_page_cache_an_append_commits_where_no_other_replica_is_in_sync() -> None:
    partition = partition_of(new_log(), None, TwoPeers())
    both = PartitionState(0, (1, 2), 1, 0, (1, 2), 1)
    partition.become_leader(0, both)
    append(partition, 2)
    assert partition.high_watermark == 0
    partition.record_fetch(2, broker_epoch=20, log_end_offset=2, log_start_offset=0)
    assert partition.high_watermark == 2
    append(partition, 1)
    assert partition.high_watermark == 2, "the follower has not fetched it"
    waiting = partition.committed(3)
    partition.become_leader(1, both._replace(leader_epoch=1, isr=(1,), zk_version=2))
    assert waiting.done()
    append(partition, 1)
    assert partition.high_watermark == 4


async def test_readers_wake_when_the_high_watermark_moves_and_stop_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partition = leading(Flusher())
    wakes: list[int] = []
    partition.watch(lambda: wakes.append(partition.high_watermark))
    append(partition, 2)
    assert wakes == []
    with monkeypatch.context() as unreadable:
        # A reader at the limit does not reach the log's file.
        unreadable.setattr(SegmentFile, "open", None)
        assert partition.read(0, bytes_max=9, offset_limit=0, at_least_one_batch=True) is None
        with pytest.raises(TypeError):
            partition.read(0, bytes_max=9, offset_limit=2, at_least_one_batch=True)
    flush_now(partition)
    partition.flushes.flushed()
    assert wakes == [2], "woken once per move"


async def test_delayed_produces_complete_in_offset_order() -> None:
    partition = leading(Flusher())
    completed: list[int] = []
    append(partition, 3)

    def complete(offset: int, code: ErrorCode) -> None:
        assert code == ErrorCode.none
        completed.append(offset)

    for offset in (3, 1, 2):
        partition.when_committed(offset, partial(complete, offset))
    flush_now(partition)
    assert completed == [1, 2, 3]


async def test_delayed_produces_fail_when_leadership_is_lost() -> None:
    partition = leading(Flusher())
    append(partition, 1)
    waiting = partition.committed(1)
    partition.resign(1)
    error = waiting.exception()
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.not_leader_or_follower
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        append(partition, 1)


async def test_a_flush_that_ends_after_resigning_commits_nothing() -> None:
    partition = leading(Flusher())
    append(partition, 1)
    partition.resign(1)
    flush_now(partition)
    assert partition.high_watermark == 0


async def test_leader_epochs_fence_both_ways() -> None:
    partition = leading(None)
    partition.become_leader(5)
    partition.require_leader(5)
    partition.require_leader(-1)
    with pytest.raises(KafkaError, match="FENCED_LEADER_EPOCH"):
        partition.require_leader(4)
    with pytest.raises(KafkaError, match="UNKNOWN_LEADER_EPOCH"):
        partition.require_leader(6)


@pytest.mark.parametrize("offset", [-1, 4])
async def test_offsets_outside_the_log_are_out_of_range(offset: int) -> None:
    partition = leading(None)
    append(partition, 3)
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        partition.read(offset, bytes_max=9, offset_limit=3, at_least_one_batch=True)
