"""Transactions in one log: the last stable offset, markers, and the aborted-transaction index."""

from __future__ import annotations

import struct
from functools import partial
from pathlib import Path

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.partition import timestamp_lookup
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.segment.transaction_index import (
    AbortedTransaction,
    TransactionIndexCorruptError,
    decode_index,
    encode_index,
)
from local_cluster.records.batch import NewRecord
from local_cluster.records.control import EndMarker, encode_marker, read_marker
from local_cluster.records.header import read_header
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.compacted_batches import encode_cleaned
from tests.unit.local_cluster.log.samples import NOW_MS, append, batch, create, flush, reopen

TRANSACTIONAL = 0x10
GOLDEN = Path(__file__).parents[4] / "golden"
SMALL_SEGMENTS = LogConfig(segment_bytes=200, index_interval_bytes=100)


def write(log: PartitionLog, producer_id: int, sequence: int, epoch: int = 0) -> int:
    made = batch(1, producer=(producer_id, epoch, sequence), attributes=TRANSACTIONAL)
    return append(log, made).base_offset


def end(
    log: PartitionLog, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0
) -> int:
    return log.as_leader.append_marker(
        EndMarker(commit, coordinator_epoch),
        producer_id=producer_id,
        producer_epoch=epoch,
        leader_epoch=0,
        now_ms=NOW_MS,
    ).base_offset


def aborted(
    log: PartitionLog, offset: int = 0, next_offset: int = 1 << 40
) -> list[tuple[int, int]]:
    return [entry[:2] for entry in log.reader.aborted_transactions(offset, next_offset)]


def test_a_marker_is_byte_for_byte_what_java_writes() -> None:
    java = bytes.fromhex((GOLDEN / "record_batch_commit_marker.hex").read_text())
    header = read_header(java)
    marker = read_marker(java, 0, header)
    assert marker == EndMarker(True, 2)
    ours = encode_marker(
        marker,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        timestamp_ms=header.max_timestamp,
    )
    # The log sets base offset and leader epoch; the CRC covers the rest.
    assert bytes(ours[8:12] + ours[16:]) == java[8:12] + java[16:]


def test_the_last_stable_offset_waits_for_the_oldest_transaction(tmp_path: Path) -> None:
    log = create(tmp_path)
    write(log, 1, 0)
    write(log, 2, 0)
    assert log.reader.last_stable_offset(2) == 0
    assert end(log, 1, commit=True) == 2
    assert log.reader.last_stable_offset(2) == 0, "the marker is not committed"
    assert log.reader.last_stable_offset(3) == 1
    end(log, 2, commit=False)
    assert log.reader.last_stable_offset(4) == 4


def test_transaction_index_entries_are_byte_for_byte_kafkas(tmp_path: Path) -> None:
    log = create(tmp_path)
    write(log, 1, 0)
    write(log, 2, 0)
    end(log, 2, commit=False)
    end(log, 1, commit=False)
    log.close()
    (path,) = (tmp_path / "t-0").glob("*.txnindex")
    # While producer 1 is open the last stable offset stays at its first offset.
    expected = struct.pack(">hqqqq", 0, 2, 1, 2, 0) + struct.pack(">hqqqq", 0, 1, 0, 3, 4)
    assert path.read_bytes() == expected
    assert decode_index(expected)[0] == AbortedTransaction(2, 1, 2, 0)
    with pytest.raises(TransactionIndexCorruptError):
        decode_index(expected[:-1])
    with pytest.raises(TransactionIndexCorruptError):
        decode_index(encode_index([AbortedTransaction(1, 5, 4, 6)]))


def test_readers_get_the_aborted_transactions_of_their_range_in_order(tmp_path: Path) -> None:
    log = create(tmp_path, config=SMALL_SEGMENTS)
    write(log, 1, 0)
    for sequence in range(3):
        write(log, 2, sequence)
    end(log, 2, commit=False)
    end(log, 1, commit=False)
    write(log, 3, 0)
    end(log, 3, commit=True)
    assert len(log.segments.base_offsets) > 1
    assert aborted(log) == [(1, 0), (2, 1)]
    assert aborted(log, 0, 1) == [(1, 0)]
    assert aborted(log, 5) == [(1, 0)]
    assert aborted(log, 6) == []


@pytest.mark.parametrize("is_clean", [True, False])
def test_index_and_open_transactions_survive_a_restart(tmp_path: Path, is_clean: bool) -> None:
    log = create(tmp_path, config=SMALL_SEGMENTS)
    write(log, 1, 0)
    for sequence in range(5):
        write(log, 2, sequence)
    end(log, 2, commit=False)
    flush(log)
    recovery_point = log.flushed_end_offset
    write(log, 3, 0)
    end(log, 3, commit=False)
    before = log.reader.aborted_transactions(0, 1 << 40)
    end_offset = log.log_end_offset
    if is_clean:
        log.close()
    log = reopen(tmp_path, config=SMALL_SEGMENTS, is_clean=is_clean, recovery_point=recovery_point)
    assert log.reader.aborted_transactions(0, 1 << 40) == before
    assert log.reader.last_stable_offset(end_offset) == 0
    end(log, 1, commit=True)
    assert log.reader.last_stable_offset(end_offset + 1) == end_offset + 1


def test_a_missing_or_broken_index_is_rebuilt_after_a_crash(tmp_path: Path) -> None:
    log = create(tmp_path, config=SMALL_SEGMENTS)
    for sequence in range(4):
        write(log, 2, sequence)
    end(log, 2, commit=False)
    before = log.reader.aborted_transactions(0, 1 << 40)
    log.close()
    for path in (tmp_path / "t-0").glob("*.txnindex"):
        path.write_bytes(b"broken")
    log = reopen(tmp_path, config=SMALL_SEGMENTS, is_clean=True)
    assert log.reader.aborted_transactions(0, 1 << 40) == before


def test_a_truncation_removes_the_abort(tmp_path: Path) -> None:
    log = create(tmp_path)
    write(log, 1, 0)
    marker = end(log, 1, commit=False)
    log.truncation.truncate_to(marker, NOW_MS).run()
    assert aborted(log) == []
    assert log.reader.last_stable_offset(1) == 0
    end(log, 1, commit=True)
    assert aborted(log) == []


def test_markers_fence_producers_and_coordinators(tmp_path: Path) -> None:
    log = create(tmp_path)
    write(log, 1, 0, epoch=3)
    with pytest.raises(KafkaError) as refused:
        end(log, 1, commit=True, epoch=2)
    assert refused.value.code is ErrorCode.invalid_producer_epoch
    end(log, 1, commit=False, epoch=4, coordinator_epoch=7)
    with pytest.raises(KafkaError) as refused:
        write(log, 1, 1, epoch=3)
    assert refused.value.code is ErrorCode.invalid_producer_epoch
    with pytest.raises(KafkaError) as refused:
        end(log, 1, commit=True, epoch=4, coordinator_epoch=6)
    assert refused.value.code is ErrorCode.transaction_coordinator_fenced
    assert log.log_end_offset == 2
    assert write(log, 1, 0, epoch=4) == 2


def test_markers_of_version_2_have_an_epoch_above_their_records(tmp_path: Path) -> None:
    """KIP-890, KIP-1228: a marker with the epoch of an open transaction ended the one before."""
    log = create(tmp_path)

    def end_second(epoch: int) -> int:
        return log.as_leader.append_marker(
            EndMarker(True, 0, transaction_version=2),
            producer_id=7,
            producer_epoch=epoch,
            leader_epoch=0,
            now_ms=NOW_MS,
        ).base_offset

    def first_open() -> int | None:
        return log.producers.first_open_offset

    write(log, 7, 0)
    with pytest.raises(KafkaError) as refused:
        end_second(0)
    assert refused.value.code is ErrorCode.invalid_producer_epoch
    assert first_open() == 0
    assert end_second(1) == 1
    assert first_open() is None
    assert end_second(1) == 2, "a repetition is harmless while nothing is open"
    with pytest.raises(KafkaError) as late:
        write(log, 7, 1)
    assert late.value.code is ErrorCode.invalid_producer_epoch, "the old epoch is fenced"
    assert write(log, 7, 0, epoch=1) == 3, "sequences start over"
    with pytest.raises(KafkaError):
        end_second(1)
    assert first_open() == 3
    assert end(log, 7, commit=True, epoch=1) == 4, "version 1 ends with the epoch of its records"


def test_a_plain_batch_inside_a_transaction_is_refused(tmp_path: Path) -> None:
    log = create(tmp_path)
    write(log, 1, 0)
    with pytest.raises(KafkaError) as refused:
        append(log, batch(1, producer=(1, 0, 1)))
    assert refused.value.code is ErrorCode.invalid_txn_state


def test_a_verification_does_not_outlive_a_marker(tmp_path: Path) -> None:
    log = create(tmp_path)
    token = log.producers.begin_verification(1)
    assert log.producers.begin_verification(1) is token
    assert log.producers.is_verified(1, token)
    end(log, 1, commit=False)
    assert not log.producers.is_verified(1, token)


def test_the_time_of_what_a_reader_has_not_seen(tmp_path: Path) -> None:
    log = create(tmp_path, config=SMALL_SEGMENTS)
    unread = partial(log.reader.unread_time, limit=1 << 40)
    append(log, batch(3, timestamp_ms=100))  # 0 to 2
    made = batch(1, timestamp_ms=200, producer=(1, 0, 0), attributes=TRANSACTIONAL)
    append(log, made)  # 3
    assert [unread(offset) for offset in (0, 2, 3, 4)] == [100, 100, 200, None]
    assert log.reader.unread_time(3, 3) is None, "not committed yet"
    end(log, 1, commit=False)  # 4
    assert [unread(offset) for offset in (2, 3, 4, 5, 99)] == [100, None, None, None, None]
    append(log, batch(1, timestamp_ms=300, producer=(1, 0, 1), attributes=TRANSACTIONAL))  # 5
    end(log, 1, commit=True)  # 6
    assert [unread(offset) for offset in (3, 4, 5, 6)] == [300, 300, 300, None]
    append(log, batch(1, timestamp_ms=-1))  # 7
    assert unread(6) == -1
    log.cleanup.advance_log_start(5)
    assert unread(0) == 300


def test_a_delete_horizon_is_not_the_time_of_a_record(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(
        log, encode_cleaned([NewRecord(100, b"k", None)], horizon_ms=900, has_bit=False, codec=0)
    )
    assert log.reader.unread_time(0, 1) == 100


def test_a_long_run_of_aborted_batches_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timestamp_lookup, "BATCHES_MAX", 3)
    log = create(tmp_path)
    for sequence in range(4):
        write(log, 1, sequence)
    end(log, 1, commit=False)
    assert log.reader.unread_time(2, 1 << 40) is None
    assert log.reader.unread_time(0, 1 << 40) == -1
