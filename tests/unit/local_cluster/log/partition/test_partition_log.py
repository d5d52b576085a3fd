"""Appending and reading one log: offsets, slices, limits, epochs, LogAppendTime."""

from __future__ import annotations

import gc
import os
import socket
import weakref
from pathlib import Path

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.records.batch import iter_records
from local_cluster.records.control import EndMarker, encode_marker
from local_cluster.records.header import crc_is_valid, iter_headers, read_header
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.log.samples import (
    NOW_MS,
    FailingFiles,
    append,
    batch,
    create,
    flush,
    offsets_of,
    read_all,
    records_of,
)

EVERYTHING = 1 << 30
SMALL_INDEX = LogConfig(index_interval_bytes=200)


def test_offsets_and_epoch_are_assigned_and_the_crc_stays_right(tmp_path: Path) -> None:
    log = create(tmp_path)
    assert append(log, batch(3)) == (0, 2, -1, 0, False)
    assert append(log, batch(2, codec=4), epoch=5) == (3, 4, -1, 0, False)
    content = read_all(log)
    headers = list(iter_headers(content))
    assert [header.base_offset for _, header in headers] == [0, 3]
    assert [header.partition_leader_epoch for _, header in headers] == [0, 5]
    assert all(crc_is_valid(content, position, header) for position, header in headers)
    assert offsets_of(log) == [0, 1, 2, 3, 4]


def test_one_write_call_per_append(tmp_path: Path) -> None:
    disk = FailingFiles()
    log = create(tmp_path, disk, SMALL_INDEX)
    disk.writes.clear()
    for _ in range(50):
        append(log, batch(2, value=b"x" * 100))
    assert disk.writes == ["00000000000000000000.log"] * 50


def test_several_batches_in_one_append_are_one_write(tmp_path: Path) -> None:
    disk = FailingFiles()
    log = create(tmp_path, disk, SMALL_INDEX)
    disk.writes.clear()
    result = append(log, *[batch(3, value=b"x" * 90) for _ in range(20)])
    assert (result.base_offset, result.last_offset) == (0, 59)
    assert len(disk.writes) == 1
    assert offsets_of(log) == list(range(60))
    assert (
        log.reader.read(
            31, bytes_max=1, offset_limit=EVERYTHING, at_least_one_batch=True
        ).next_offset
        == 33
    )


def test_a_read_begins_with_the_batch_that_holds_the_offset(tmp_path: Path) -> None:
    log = create(tmp_path, config=SMALL_INDEX)
    for _ in range(40):
        append(log, batch(5, value=b"x" * 30))
    for offset in range(200):
        piece = log.reader.read(
            offset, bytes_max=1, offset_limit=EVERYTHING, at_least_one_batch=True
        )
        (_, header), *rest = iter_headers(piece.read())
        assert header.base_offset <= offset <= header.last_offset
        assert not rest, "one batch was asked for"
        assert piece.next_offset == header.next_offset


@pytest.mark.parametrize("bytes_max", [0, 1, 149, 150, 151, 400, 1000, 10_000])
def test_slices_hold_whole_batches_within_the_limit(tmp_path: Path, bytes_max: int) -> None:
    log = create(tmp_path, config=SMALL_INDEX)
    sizes = []
    for index in range(30):
        made = batch(1, value=b"x" * (index * 7 % 90))
        sizes.append(len(made))
        append(log, made)
    for offset in range(30):
        strict = log.reader.read(
            offset, bytes_max=bytes_max, offset_limit=EVERYTHING, at_least_one_batch=False
        )
        fitting = 0
        while offset + fitting < 30 and sum(sizes[offset : offset + fitting + 1]) <= bytes_max:
            fitting += 1
        assert strict.size_bytes == sum(sizes[offset : offset + fitting])
        assert strict.next_offset == offset + fitting
        kind = log.reader.read(
            offset, bytes_max=bytes_max, offset_limit=EVERYTHING, at_least_one_batch=True
        )
        assert kind.size_bytes == sum(sizes[offset : offset + max(fitting, 1)])


def test_nothing_at_or_above_the_limit_is_read(tmp_path: Path) -> None:
    log = create(tmp_path, config=SMALL_INDEX)
    for _ in range(20):
        append(log, batch(2))
    for limit in range(0, 41, 2):
        piece = log.reader.read(
            0, bytes_max=EVERYTHING, offset_limit=limit, at_least_one_batch=True
        )
        offsets = [record.offset for record in iter_records(piece.read())]
        assert offsets == list(range(limit))
    # A limit inside a batch leaves the whole batch out.
    piece = log.reader.read(0, bytes_max=EVERYTHING, offset_limit=3, at_least_one_batch=True)
    assert [record.offset for record in iter_records(piece.read())] == [0, 1]


def test_reads_outside_the_log_are_refused_and_the_end_is_empty(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(2))
    assert log.reader.read(2, bytes_max=1, offset_limit=9, at_least_one_batch=True).size_bytes == 0
    for offset in (-1, 3):
        with pytest.raises(KafkaError) as refused:
            log.reader.read(offset, bytes_max=1, offset_limit=9, at_least_one_batch=True)
        assert refused.value.code is ErrorCode.offset_out_of_range


def test_a_slice_goes_through_sendfile(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(1, value=b"first"))
    append(log, batch(1, value=b"second"))
    piece = log.reader.read(1, bytes_max=EVERYTHING, offset_limit=2, at_least_one_batch=True)
    left, right = socket.socketpair()
    with left, right:
        sent = os.sendfile(left.fileno(), piece.file.fileno(), piece.position, piece.size_bytes)
        assert sent == piece.size_bytes
        assert right.recv(1000) == piece.read()


def test_a_follower_appends_batches_unchanged(tmp_path: Path) -> None:
    leader = create(tmp_path / "leader")
    append(leader, batch(3), epoch=1)
    append(leader, batch(1, producer=(9, 0, 0)), epoch=1)
    append(leader, batch(2), epoch=4)
    content = bytearray(read_all(leader))
    follower = create(tmp_path / "follower")
    headers = [header for _, header in iter_headers(content)]
    follower.as_follower.append(content, headers, now_ms=NOW_MS)
    assert read_all(follower) == content
    assert follower.log_end_offset == 6
    assert follower.leader_epochs.entries == leader.leader_epochs.entries
    assert follower.producers.get(9) is not None
    with pytest.raises(KafkaError) as refused:
        follower.as_follower.append(content, headers, now_ms=NOW_MS)
    assert refused.value.code is ErrorCode.offset_out_of_range
    assert follower.log_end_offset == 6


def test_a_follower_splits_a_fetch_that_exceeds_its_segments(tmp_path: Path) -> None:
    leader = create(tmp_path / "leader")
    for _ in range(10):
        append(leader, batch(2, value=b"x" * 50))
    content = bytearray(read_all(leader))
    follower = create(tmp_path / "follower", config=LogConfig(segment_bytes=500))
    headers = [header for _, header in iter_headers(content)]
    follower.as_follower.append(content, headers, now_ms=NOW_MS)
    assert read_all(follower) == content
    assert len(follower.segments.base_offsets) > 2


def test_log_append_time_sets_every_time_and_keeps_the_crc_right(tmp_path: Path) -> None:
    log = create(tmp_path, config=LogConfig(log_append_time=True))
    result = append(log, batch(3, timestamp_ms=5), now_ms=NOW_MS + 9)
    assert result.log_append_time_ms == NOW_MS + 9
    assert {record.timestamp_ms for record in records_of(log)} == {NOW_MS + 9}
    content = read_all(log)
    [(position, header)] = iter_headers(content)
    assert crc_is_valid(content, position, header)
    assert header.is_log_append_time


def test_epoch_end_offsets(tmp_path: Path) -> None:
    log = create(tmp_path)
    for epoch, count in ((1, 2), (1, 3), (4, 1), (6, 2)):
        append(log, batch(count), epoch=epoch)
    assert log.reader.epoch_end_offset(0) == (0, 0)
    assert log.reader.epoch_end_offset(1) == (1, 5)
    assert log.reader.epoch_end_offset(3) == (1, 5)
    assert log.reader.epoch_end_offset(4) == (4, 6)
    assert log.reader.epoch_end_offset(6) == (6, 8)
    assert log.reader.epoch_end_offset(7) == (-1, -1)
    assert [log.leader_epochs.epoch_of(offset) for offset in (0, 4, 5, 6, 7)] == [1, 1, 4, 6, 6]


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = create(tmp_path, config=LogConfig(segment_bytes=100))
    with pytest.raises(KafkaError) as refused:
        append(log, batch(1, value=b"x" * 100))
    assert refused.value.code is ErrorCode.record_list_too_large
    assert log.log_end_offset == 0


def test_open_transactions_hold_the_last_stable_offset(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(2))
    append(log, batch(1, producer=(9, 0, 0), attributes=0x10))
    append(log, batch(1))
    assert log.reader.last_stable_offset(4) == 2
    assert log.reader.last_stable_offset(1) == 1
    buffer = encode_marker(EndMarker(True, 0), producer_id=9, producer_epoch=0, timestamp_ms=NOW_MS)
    log.as_follower.append(buffer, [read_header(buffer)._replace(base_offset=4)], now_ms=NOW_MS)
    assert log.reader.last_stable_offset(4) == 2, "the marker itself is not committed yet"
    assert log.reader.last_stable_offset(5) == 5


def test_the_file_of_a_deleted_log_closes_without_garbage_collection(tmp_path: Path) -> None:
    """The broker freezes its objects after the start: a cycle would keep the file open for good."""
    log = create(tmp_path)
    append(log, batch(1))
    flush(log)
    file = weakref.ref(log.segments.active.file.open())
    gc.disable()
    try:
        log.delete(f"{tmp_path}/t-0-delete").run()
        assert file() is not None
        del log
        assert file() is None
    finally:
        gc.enable()
