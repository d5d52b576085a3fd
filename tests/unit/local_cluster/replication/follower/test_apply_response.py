"""Followers that start over: at the leader's log start, within a batch, or beyond its end."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.records.control import EndMarker
from local_cluster.replication.follower.apply_response import Applied, apply_response, position_of
from local_cluster.replication.follower.response_rules import Append, TruncateFully
from local_cluster.replication.partition import Partition
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import PartitionFetchResponse
from tests.unit.local_cluster.log.samples import (
    NOW_MS,
    append,
    batch,
    create,
    flush,
    offsets_of,
    read_all,
    reopen,
)

TRANSACTIONAL = 0x10
LEADER_EPOCH = 9
"""Later than that of any batch here."""


class Pair:
    """A leader's log, and a replica that follows it by responses of this test."""

    def __init__(self, directory: Path) -> None:
        self.leader = create(directory / "leader")
        self.directory = directory / "follower"
        self.follow(create(self.directory))

    def follow(self, log: PartitionLog) -> None:
        self.log = log
        self.replica = Partition(
            "t", 0, uuid.UUID(int=1), log, flusher=None, now_ms=lambda: NOW_MS, high_watermark=0
        )
        self.replica.resign(LEADER_EPOCH, 1)

    def fetch(self) -> Applied:
        """Fetch as the follower does, and apply the response. Everything is committed."""
        position = position_of(self.replica)
        leader, error, records = self.leader, ErrorCode.none, b""
        try:
            piece = leader.read(
                position.fetch_offset,
                bytes_max=1,
                offset_limit=leader.log_end_offset,
                at_least_one_batch=True,
            )
            records = piece.read()
        except KafkaError as refused:
            error = refused.code
        response = PartitionFetchResponse(
            "t",
            0,
            error,
            high_watermark=leader.log_end_offset,
            log_start_offset=leader.log_start_offset,
            records=memoryview(bytearray(records)),
        )
        done = apply_response(self.replica, position, response, now_ms=NOW_MS)
        if done.deletion is not None:
            done.deletion.run()
        return done

    def catch_up(self) -> None:
        for _ in range(20):
            if self.log.log_end_offset == self.leader.log_end_offset:
                return
            self.fetch()
        raise AssertionError("the follower makes no progress")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    yield pair
    pair.log.close()
    pair.leader.close()


def test_a_follower_gets_the_batch_that_the_leaders_log_start_lies_in(
    pair: Pair,
) -> None:
    append(pair.leader, batch(3))
    pair.catch_up()
    append(pair.leader, batch(10))
    append(pair.leader, batch(2))
    pair.leader.advance_log_start(7)
    assert pair.fetch().action == TruncateFully(7)
    assert (pair.log.log_start_offset, pair.log.log_end_offset) == (7, 7)
    done = pair.fetch()
    assert isinstance(done.action, Append)
    assert done.deletion is not None, "the directory is checkpointed before the next append"
    assert (pair.log.log_start_offset, pair.log.log_end_offset) == (7, 13)
    pair.catch_up()
    assert pair.log.log_start_offset == 7
    assert pair.replica.high_watermark == 15
    assert read_all(pair.log) == read_all(pair.leader)


def test_a_log_with_records_takes_no_batch_that_starts_before_its_end(pair: Pair) -> None:
    append(pair.leader, batch(3))
    pair.catch_up()
    other = create(pair.directory.parent / "other")
    append(other, batch(10))
    pair.leader.close()
    pair.leader = other
    with pytest.raises(KafkaError) as refused:
        pair.fetch()
    assert refused.value.code is ErrorCode.offset_out_of_range
    assert offsets_of(pair.log) == [0, 1, 2]


def test_an_empty_follower_starts_over_at_a_leader_that_ends_before_it(
    pair: Pair,
) -> None:
    append(pair.leader, batch(5))
    pair.log.truncate_fully(9, NOW_MS).run()
    assert pair.fetch().action == TruncateFully(0)
    pair.catch_up()
    assert offsets_of(pair.log) == [0, 1, 2, 3, 4]


def test_a_follower_with_records_retries_if_its_leader_ends_before_it(pair: Pair) -> None:
    append(pair.leader, batch(5))
    pair.catch_up()
    other = create(pair.directory.parent / "other")
    pair.leader.close()
    pair.leader = other
    assert not isinstance(pair.fetch().action, TruncateFully)
    assert offsets_of(pair.log) == [0, 1, 2, 3, 4]


def write(log: PartitionLog, producer_id: int, sequence: int) -> None:
    append(log, batch(1, producer=(producer_id, 0, sequence), attributes=TRANSACTIONAL))


def commit(log: PartitionLog, producer_id: int) -> None:
    log.append_marker(
        EndMarker(True, 0), producer_id=producer_id, producer_epoch=0, leader_epoch=0, now_ms=NOW_MS
    )


@pytest.mark.parametrize("restarts", [False, True])
def test_a_transaction_from_before_the_new_start_does_not_stay_open(
    pair: Pair, restarts: bool
) -> None:
    write(pair.leader, 7, 0)
    pair.catch_up()
    assert pair.log.last_stable_offset(1) == 0
    pair.log.roll(NOW_MS)  # with a snapshot, in which the transaction is open
    commit(pair.leader, 7)
    append(pair.leader, batch(4))
    pair.leader.advance_log_start(pair.leader.log_end_offset)
    append(pair.leader, batch(1))
    pair.catch_up()
    if restarts:
        flush(pair.log)
        pair.log.close()
        pair.follow(reopen(pair.directory))
    end = pair.leader.log_end_offset
    assert pair.log.last_stable_offset(end) == end
    # Nor does it know a sequence that the other replicas have forgotten.
    write(pair.log, 7, 5)


def test_a_snapshot_from_before_the_first_segment_is_not_loaded(pair: Pair) -> None:
    write(pair.leader, 7, 0)
    pair.catch_up()
    pair.log.roll(NOW_MS)
    (snapshot,) = (pair.directory / "t-0").glob("*.snapshot")
    kept = snapshot.read_bytes()
    pair.log.truncate_fully(9, NOW_MS).run()
    assert not snapshot.exists()
    pair.log.close()
    snapshot.write_bytes(kept)  # as after a removal that never reached the disk
    pair.follow(reopen(pair.directory))
    assert pair.log.last_stable_offset(9) == 9


def test_a_transaction_that_starts_below_the_log_start_delays_no_reader(pair: Pair) -> None:
    append(pair.leader, batch(2))
    write(pair.leader, 7, 0)
    append(pair.leader, batch(4))
    assert pair.leader.last_stable_offset(7) == 2
    pair.leader.advance_log_start(5)
    assert pair.leader.last_stable_offset(7) == 5


def test_ended_transactions_are_dropped_without_readers(tmp_path: Path) -> None:
    log = create(tmp_path, config=LogConfig(retention_ms=-1))
    for sequence in range(20):
        write(log, 7, sequence)
        commit(log, 7)
    assert len(log.producers._unreplicated) == 20
    log.apply_retention(NOW_MS, high_watermark=30)
    assert [ended.last_offset for ended in log.producers._unreplicated] == [31, 33, 35, 37, 39]
    log.close()
