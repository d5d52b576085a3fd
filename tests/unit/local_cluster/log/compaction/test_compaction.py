"""What compaction keeps and drops, on logs with small segments."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from local_cluster.log.compaction.cleaner import run_job
from local_cluster.log.compaction.compaction_job import CleanedGroup
from local_cluster.log.compaction.compaction_round import plan_round
from local_cluster.log.compaction.key_offset_map import KeyOffsetMap
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.state.producer_state import ProducerState
from local_cluster.records.batch import CorruptRecordError, NewRecord, decode_batch, encode_batch
from local_cluster.records.committed import committed_batches
from local_cluster.records.control import EndMarker, encode_marker, read_marker
from local_cluster.records.header import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    iter_headers,
    read_header,
)
from tests.unit.local_cluster.log.compaction.compaction_samples import (
    KEY_BYTES_MAX,
    NoThrottle,
    compact,
    put,
)
from tests.unit.local_cluster.log.samples import (
    NOW_MS,
    append,
    create,
    read_all,
    records_of,
    reopen,
)

HOUR_MS = 3_600_000
CONFIG = LogConfig(
    is_compacted=True,
    is_deleted_by_retention=False,
    segment_bytes=2000,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=HOUR_MS,
)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return create(tmp_path, config=CONFIG)


def pairs(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records_of(log)]


def headers(log: PartitionLog) -> list[BatchHeader]:
    return [header for _, header in iter_headers(read_all(log))]


def marker(log: PartitionLog, kind: int, producer: int, epoch: int = 0) -> int:
    """Append a commit (1) or abort (0) marker as a follower does."""
    base_offset = log.log_end_offset
    batch = encode_batch(
        [NewRecord(NOW_MS, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))],
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=-1,
        base_offset=base_offset,
        leader_epoch=0,
        attributes=CONTROL_BIT | TRANSACTIONAL_BIT,
    )
    found = [header for _, header in iter_headers(batch)]
    log.as_follower.append(batch, found, now_ms=NOW_MS)
    return base_offset


def test_the_newest_record_of_every_key_stays_at_its_offset(log: PartitionLog) -> None:
    for index in range(6):
        put(log, (b"a", b"%d" % index), (b"b%d" % index, b"x"), (b"c", b"%d" % index))
    log.writer.roll(NOW_MS)
    put(log, (b"a", b"active"))
    done = compact(log)
    assert done is not None
    assert done.end_offset == 18
    assert pairs(log) == [
        *((index * 3 + 1, b"b%d" % index, b"x") for index in range(5)),
        (15, b"a", b"5"),
        (16, b"b5", b"x"),
        (17, b"c", b"5"),
        (18, b"a", b"active"),
    ]
    kept = headers(log)
    assert [header.base_offset for header in kept] == [0, 3, 6, 9, 12, 15, 18]
    assert [header.records_count for header in kept] == [1, 1, 1, 1, 1, 3, 1]
    assert {header.last_offset_delta for header in kept[:-1]} == {2}


@pytest.mark.parametrize("codec", range(5))
def test_every_codec_keeps_headers_times_and_codec(log: PartitionLog, codec: int) -> None:
    made = encode_batch(
        [
            NewRecord(NOW_MS + 5, b"a", b"old", (("h", b"1"),)),
            NewRecord(NOW_MS + 3, b"b", b"v", (("h", b"2"), ("n", None))),
            NewRecord(NOW_MS + 9, b"c", b"old"),
        ],
        codec=codec,
    )
    append(log, made)
    put(log, (b"a", b"new"), (b"c", b"new"), codec=codec)
    log.writer.roll(NOW_MS)
    compact(log)
    first = records_of(log)[0]
    assert first == (1, NOW_MS + 3, b"b", b"v", (("h", b"2"), ("n", None)))
    assert headers(log)[0].codec == codec
    assert headers(log)[0].max_timestamp == NOW_MS + 3


def test_every_offset_can_be_read_from_and_leads_to_the_next_record(log: PartitionLog) -> None:
    for index in range(40):
        put(log, (b"k%d" % (index % 3), b"x" * 100))
    log.writer.roll(NOW_MS)
    compact(log)
    survivors = [offset for offset, _, _ in pairs(log)]
    assert survivors == [37, 38, 39]
    for offset in range(40):
        piece = log.reader.read(offset, bytes_max=1, offset_limit=40, at_least_one_batch=True)
        assert piece.size_bytes
        assert piece.next_offset > offset
    assert log.log_end_offset == 40


def test_small_segments_become_one_and_open_slices_stay_valid(log: PartitionLog) -> None:
    for index in range(60):
        put(log, (b"k%d" % (index % 3), b"x" * 100))
    before = len(log.segments.all)
    assert before > 4
    slices = [
        log.reader.read(
            segment.base_offset, bytes_max=500, offset_limit=60, at_least_one_batch=True
        )
        for segment in log.segments.all
    ]
    contents = [piece.read() for piece in slices]
    compact(log)
    first = compact(log)
    assert first is not None
    assert len(log.segments.all) <= 3
    assert [piece.read() for piece in slices] == contents
    assert not [path for path in Path(log.directory).iterdir() if path.suffix == ".deleted"]


def test_a_tombstone_outlives_delete_retention_and_then_goes(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None))
    log.writer.roll(NOW_MS)
    put(log, (b"c", b"1"))
    log.writer.roll(NOW_MS)
    done = compact(log)
    assert done is not None
    assert pairs(log) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    tombstone = headers(log)[1]
    assert tombstone.has_delete_horizon
    assert tombstone.base_timestamp == NOW_MS + HOUR_MS
    assert tombstone.max_timestamp == NOW_MS
    assert records_of(log)[1].timestamp_ms == NOW_MS
    for now_ms, there in ((NOW_MS + HOUR_MS - 1, True), (NOW_MS + HOUR_MS, False)):
        put(log, (b"d", b"1"))
        log.writer.roll(NOW_MS)
        done = compact(log, cleaned_offset=done.end_offset, now_ms=now_ms)
        assert done is not None
        assert (b"a" in {key for _, key, _ in pairs(log)}) is there
    found = log.reader.offset_for_timestamp(NOW_MS)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (1, NOW_MS)


def test_timestamp_lookups_are_exact_over_gaps_and_delete_horizons(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), now_ms=NOW_MS)
    put(log, (b"t", None), now_ms=NOW_MS + 10)
    put(log, (b"b", b"1"), (b"a", b"2"), now_ms=NOW_MS + 20)
    put(log, (b"b", b"2"), now_ms=NOW_MS + 30)
    log.writer.roll(NOW_MS)
    compact(log)
    found = [log.reader.offset_for_timestamp(NOW_MS + step) for step in (0, 10, 11, 20, 21, 31)]
    assert [each and each.offset for each in found] == [1, 1, 3, 3, 4, None]
    newest = log.reader.max_timestamp()
    assert newest is not None
    assert newest.offset == 4


def test_the_last_batch_of_a_producer_stays_empty_so_that_it_can_continue(
    log: PartitionLog, tmp_path: Path
) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"), producer=(9, 0, 0))
    put(log, (b"a", b"2"), producer=(9, 0, 2))
    put(log, (b"a", b"3"), (b"b", b"3"))
    log.writer.roll(NOW_MS)
    compact(log)
    kept = headers(log)
    assert [(header.base_offset, header.records_count) for header in kept] == [(2, 0), (3, 2)]
    assert (kept[0].producer_id, kept[0].last_sequence) == (9, 2)
    for path in Path(log.directory).glob("*.snapshot"):
        path.unlink()
    again = reopen(tmp_path, config=CONFIG)
    assert again.log_end_offset == 5
    assert put(again, (b"z", b"1"), producer=(9, 0, 3)) == 5


def test_control_batches_stay_while_their_transaction_has_data(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), producer=(7, 0, 0), attributes=TRANSACTIONAL_BIT)
    marker(log, 1, 7)
    put(log, (b"x", b"aborted"), (b"b", b"aborted"), producer=(8, 0, 0), attributes=0x10)
    marker(log, 0, 8)
    put(log, (b"b", b"1"))
    # With newer epochs the batches above are no producer's last batch.
    put(log, (b"y", b"1"), producer=(7, 1, 0))
    put(log, (b"y", b"2"), producer=(8, 1, 0))
    log.writer.roll(NOW_MS)
    done = compact(log)
    assert done is not None
    control = [header.base_offset for header in headers(log) if header.is_control]
    assert control == [1, 4]
    # The aborted records are gone, and with them a key that only they had.
    assert [key for _, key, _ in pairs(log)] == [b"a", b"b", b"y"]

    def again(now_ms: int) -> list[int]:
        nonlocal done
        assert done is not None
        put(log, (b"a", b"%d" % now_ms))
        log.writer.roll(NOW_MS)
        done = compact(log, cleaned_offset=done.end_offset, now_ms=now_ms)
        return [header.base_offset for header in headers(log) if header.is_control]

    assert again(NOW_MS) == [1, 4]
    assert again(NOW_MS + HOUR_MS) == [1]
    assert again(NOW_MS + HOUR_MS + HOUR_MS) == []


def emptied_marker(log: PartitionLog, kind: int = 1) -> int:
    """Append a marker as compaction keeps it: emptied, as the last batch of its producer."""
    put(log, (b"a", b"1"), producer=(7, 0, 0), attributes=TRANSACTIONAL_BIT)
    at = marker(log, kind, 7, epoch=1)  # as in version 2 of transactions
    cleaned_offset = 0
    for hours in (0, 2, 4):
        put(log, (b"a", b"%d" % hours))
        log.writer.roll(NOW_MS)
        done = compact(log, cleaned_offset=cleaned_offset, now_ms=NOW_MS + hours * HOUR_MS)
        assert done is not None
        cleaned_offset = done.end_offset
    (kept,) = [header for header in headers(log) if header.is_control]
    assert (kept.base_offset, kept.records_count) == (at, 0)
    return at


def test_a_log_with_an_emptied_marker_can_be_replicated_and_opened(
    log: PartitionLog, tmp_path: Path
) -> None:
    emptied_marker(log)
    content = bytearray(read_all(log))
    follower = create(tmp_path / "follower", config=CONFIG)
    found = [header for _, header in iter_headers(content)]
    follower.as_follower.append(content, found, now_ms=NOW_MS)
    assert read_all(follower) == content
    for path in Path(log.directory).glob("*.snapshot"):
        path.unlink()
    again = reopen(tmp_path, config=CONFIG)
    assert again.reader.last_stable_offset(again.log_end_offset) == again.log_end_offset


def test_an_emptied_marker_ends_a_transaction_that_an_old_snapshot_has_open() -> None:
    state = ProducerState(0)
    opened = encode_batch(
        [NewRecord(NOW_MS, b"a", b"1")],
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        attributes=TRANSACTIONAL_BIT,
    )
    state.record(read_header(opened), 0, NOW_MS, NOW_MS)
    assert state.first_open_offset == 0
    ended = encode_marker(EndMarker(True, 0), producer_id=7, producer_epoch=0, timestamp_ms=NOW_MS)
    header = read_header(ended)._replace(records_count=0)
    assert read_marker(ended, 0, header) is None
    state.record(header, 1, NOW_MS, NOW_MS, None)
    assert state.first_open_offset is None


def visible(log: PartitionLog) -> list[int]:
    """Return the offsets that a read_committed consumer sees in one fetch of everything."""
    aborted = [entry[:2] for entry in log.reader.aborted_transactions(0, log.log_end_offset)]
    content = read_all(log)
    return [
        record.offset
        for position, header, is_visible in committed_batches(content, aborted)
        if is_visible
        for record in decode_batch(content, position, header)
    ]


@pytest.mark.parametrize("kind", [0, 1])
def test_an_emptied_marker_aborts_the_rest_of_its_transaction_on_a_follower(
    log: PartitionLog, tmp_path: Path, kind: int
) -> None:
    """The follower was away from before the marker until the transaction was compacted away."""
    follower = create(tmp_path / "follower", config=CONFIG)
    put(follower, (b"a", b"1"), producer=(7, 0, 0), attributes=TRANSACTIONAL_BIT)
    at = emptied_marker(log, kind)
    later = put(log, (b"b", b"1"), producer=(7, 1, 0), attributes=TRANSACTIONAL_BIT)
    marker(log, 1, 7, epoch=2)
    content = bytearray(read_all(log))
    found = [header for _, header in iter_headers(content)]
    assert found[0].base_offset == at
    follower.as_follower.append(content, found, now_ms=NOW_MS)
    assert [header.base_offset for header in headers(follower)[1:]] == [
        header.base_offset for header in found
    ]
    plain = found[1].base_offset

    def assert_hidden(replica: PartitionLog) -> None:
        assert visible(replica) == [plain, later]
        assert [entry[:3] for entry in replica.reader.aborted_transactions(0, at)] == [(7, 0, at)]
        assert replica.reader.last_stable_offset(replica.log_end_offset) == replica.log_end_offset
        entry = replica.producers.get(7)
        assert entry is not None
        assert entry.epoch == 2

    assert_hidden(follower)
    follower.close()
    for path in Path(follower.directory).glob("*.snapshot"):
        path.unlink()
    follower = reopen(tmp_path / "follower", config=CONFIG)
    assert_hidden(follower)
    follower.writer.roll(NOW_MS)
    compact(follower)
    assert visible(follower) == [plain, later]
    assert (0, b"a", b"1") not in pairs(follower)
    assert visible(log) == [plain, later], "the leader has no transaction to abort"


def test_the_active_segment_and_unstable_records_are_not_compacted(log: PartitionLog) -> None:
    for index in range(4):
        put(log, (b"a", b"%d" % index))
        log.writer.roll(NOW_MS)
    assert compact(log, last_stable_offset=0) is None
    done = compact(log, last_stable_offset=2)
    assert done is not None
    assert done.end_offset == 2
    assert pairs(log) == [(1, b"a", b"1"), (2, b"a", b"2"), (3, b"a", b"3")]


def test_a_full_map_takes_several_rounds(log: PartitionLog) -> None:
    for index in range(100):
        put(log, (b"k%d" % (index % 50), b"%d" % index))
    log.writer.roll(NOW_MS)
    cleaned, rounds = 0, 0
    while (done := compact(log, cleaned_offset=cleaned, key_bytes_max=24 * 20)) is not None:
        assert done.end_offset > cleaned
        cleaned = done.end_offset
        rounds += 1
    assert rounds > 2
    assert cleaned == 100
    assert pairs(log) == [(index, b"k%d" % (index - 50), b"%d" % index) for index in range(50, 100)]


def test_a_group_whose_segments_changed_meanwhile_is_not_swapped_in(log: PartitionLog) -> None:
    for index in range(40):
        put(log, (b"k%d" % (index % 3), b"x" * 100))
    planned = plan_round(
        log, cleaned_offset=0, last_stable_offset=40, now_ms=NOW_MS, key_bytes_max=KEY_BYTES_MAX
    )
    assert planned is not None
    results = [
        result
        for result in run_job(planned.job, OsFiles(), NoThrottle())
        if isinstance(result, CleanedGroup)
    ]
    log.truncation.truncate_to(39, NOW_MS)
    before = pairs(log)
    assert [planned.take_over(result) for result in results] == [None] * len(results)
    assert pairs(log) == before


def test_damage_ends_the_round_and_leaves_the_log(log: PartitionLog) -> None:
    for _ in range(40):
        put(log, (b"k", b"x" * 100))
    planned = plan_round(
        log, cleaned_offset=0, last_stable_offset=40, now_ms=NOW_MS, key_bytes_max=KEY_BYTES_MAX
    )
    assert planned is not None
    path = Path(log.segments.all[1].path(".log"))
    content = bytearray(path.read_bytes())
    content[150] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptRecordError):
        list(run_job(planned.job, OsFiles(), NoThrottle()))


def test_compaction_lags(tmp_path: Path) -> None:
    config = LogConfig(
        is_compacted=True,
        segment_bytes=200,
        min_compaction_lag_ms=1000,
        max_compaction_lag_ms=5000,
        min_cleanable_dirty_ratio=1.0,
    )
    log = create(tmp_path, config=config)
    for step in (0, 100, 2000):
        put(log, (b"a", b"x" * 100), now_ms=NOW_MS + step)
        log.writer.roll(NOW_MS + step)

    def due(now_ms: int) -> int | None:
        planned = plan_round(
            log, cleaned_offset=0, last_stable_offset=3, now_ms=now_ms, key_bytes_max=KEY_BYTES_MAX
        )
        return None if planned is None else planned.job.end_offset

    assert due(NOW_MS + 900) is None
    # Too little is dirty, until a segment has waited too long.
    assert due(NOW_MS + 5000) is None
    assert due(NOW_MS + 5001) == 3
    assert due(NOW_MS + 5001 - 2500) is None
    log.state.update_config(
        LogConfig(is_compacted=True, min_compaction_lag_ms=1000, segment_bytes=200)
    )
    assert due(NOW_MS + 2500) == 2


def test_snapshots_of_replaced_segments_are_deleted(log: PartitionLog) -> None:
    for _ in range(60):
        put(log, (b"k", b"x" * 100))
    compact(log)
    bases = set(log.segments.base_offsets)
    snapshots = {int(path.stem) for path in Path(log.directory).glob("*.snapshot")}
    assert snapshots <= bases


def test_the_key_map_behaves_like_a_dict_of_bounded_size() -> None:
    keys = KeyOffsetMap(24 * 1009, 10_000)
    model: dict[bytes, int] = {}
    for index in range(5000):
        key = b"%d" % (index * 7919 % 1500)
        if keys.put(key, index):
            model[key] = index
        else:
            assert keys.is_full
            assert key not in model
    assert keys.size_bytes <= 24 * 1009
    assert len(keys) == len(model) == 908
    assert all(keys.get(key) == offset for key, offset in model.items())
    assert keys.get(b"never") == -1


def test_compact_and_delete_together(tmp_path: Path) -> None:
    config = LogConfig(
        is_compacted=True,
        is_deleted_by_retention=True,
        retention_ms=HOUR_MS,
        segment_bytes=700,
        min_cleanable_dirty_ratio=0.0,
    )
    log = create(tmp_path, config=config)
    for index in range(30):
        put(log, (b"k%d" % (index % 12), b"x" * 100), now_ms=NOW_MS + index * 60_000)
    planned = plan_round(
        log, cleaned_offset=0, last_stable_offset=30, now_ms=NOW_MS, key_bytes_max=KEY_BYTES_MAX
    )
    assert planned is not None
    results = [
        result
        for result in run_job(planned.job, OsFiles(), NoThrottle())
        if isinstance(result, CleanedGroup)
    ]
    # Retention deletes the oldest segment while the compactor works on it.
    assert len(log.cleanup.apply_retention(NOW_MS + HOUR_MS + 5 * 60_000, 30)) == 1
    start = log.log_start_offset
    assert start > 0
    assert planned.log_changed
    assert planned.take_over(results[0]) is None
    assert compact(log, now_ms=NOW_MS) is not None
    assert log.log_start_offset == start
    assert min(offset for offset, _, _ in pairs(log)) >= start
    assert {key for _, key, _ in pairs(log)} == {b"k%d" % index for index in range(12)}
    log.cleanup.apply_retention(NOW_MS + 10 * HOUR_MS, 30)
    assert log.log_start_offset == 30
    assert compact(log, cleaned_offset=12) is None


def test_the_transaction_index_follows_its_markers(log: PartitionLog) -> None:
    entry = struct.Struct(">hqqqq")
    put(log, (b"x", b"1"), producer=(8, 0, 0), attributes=TRANSACTIONAL_BIT)
    gone = marker(log, 0, 8)
    log.writer.roll(NOW_MS)
    put(log, (b"x", b"2"), producer=(8, 0, 1), attributes=TRANSACTIONAL_BIT)
    put(log, (b"y", b"2"))
    kept = marker(log, 0, 8)
    log.writer.roll(NOW_MS)
    first, second = log.segments.all[0], log.segments.all[1]
    Path(first.path(".txnindex")).write_bytes(entry.pack(0, 99, 0, gone + 1000, 0))
    Path(second.path(".txnindex")).write_bytes(entry.pack(0, 8, 2, kept, 2))
    compact(log)
    assert len(log.segments.all) == 2
    content = Path(log.segments.all[0].path(".txnindex")).read_bytes()
    assert list(entry.iter_unpack(content)) == [(0, 8, 2, kept, 2)]


def test_leader_epochs_keep_their_start_offsets_over_a_crash(
    log: PartitionLog, tmp_path: Path
) -> None:
    for index in range(12):
        put(log, (b"a", b"%d" % index), epoch=index // 4)
        if index in (3, 7):
            put(log, (b"b%d" % index, b"x"), epoch=index // 4)
    log.writer.roll(NOW_MS)
    put(log, (b"c", b"1"), epoch=2)
    log.close()
    starts = log.leader_epochs.entries
    assert [entry.start_offset for entry in starts] == [0, 5, 10]
    compact(log)
    assert [offset for offset, _, _ in pairs(log)] == [4, 9, 13, 14]
    again = reopen(tmp_path, config=CONFIG)
    assert again.leader_epochs.entries == starts
    assert [again.reader.epoch_end_offset(epoch).end_offset for epoch in range(3)] == [5, 10, 15]
