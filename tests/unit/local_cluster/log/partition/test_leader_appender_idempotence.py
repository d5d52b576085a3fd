"""The window of five batches per producer, alone and through restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.state.producer_snapshot import (
    SnapshotCorruptError,
    decode_snapshot,
    encode_snapshot,
)
from local_cluster.log.state.producer_state import ProducerState
from local_cluster.records.header import iter_headers
from local_cluster.wire.errors import ErrorCode, KafkaError
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


def refusal(log: object, *batches: bytearray) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        append(log, *batches)  # type: ignore[arg-type]
    return refused.value.code


def test_a_repetition_returns_the_original_offsets_and_writes_nothing(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(3))
    sequence = 0
    for count in (1, 2, 3, 1, 2):
        append(log, batch(count, producer=(9, 0, sequence)))
        sequence += count
    before = read_all(log)
    assert append(log, batch(1, producer=(9, 0, 0))) == (3, 3, -1, 0, True)
    assert append(log, batch(3, producer=(9, 0, 3))) == (6, 8, -1, 0, True)
    assert append(log, batch(2, producer=(9, 0, 7))) == (10, 11, -1, 0, True)
    assert read_all(log) == before


def test_the_window_is_five_batches(tmp_path: Path) -> None:
    log = create(tmp_path)
    for sequence in range(6):
        append(log, batch(1, producer=(9, 0, sequence)))
    assert append(log, batch(1, producer=(9, 0, 1))).is_duplicate
    assert refusal(log, batch(1, producer=(9, 0, 0))) is ErrorCode.out_of_order_sequence_number


def test_gaps_and_partial_repetitions_are_refused(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(4, producer=(9, 0, 0)))
    out_of_order = ErrorCode.out_of_order_sequence_number
    assert refusal(log, batch(1, producer=(9, 0, 5))) is out_of_order
    assert refusal(log, batch(2, producer=(9, 0, 2))) is out_of_order
    assert refusal(log, batch(5, producer=(9, 0, 0))) is out_of_order
    assert append(log, batch(1, producer=(9, 0, 4))).base_offset == 4


def test_sequences_wrap(tmp_path: Path) -> None:
    log = create(tmp_path)
    last = 2**31 - 1
    append(log, batch(2, producer=(9, 0, last - 3)))
    append(log, batch(4, producer=(9, 0, last - 1)))
    assert append(log, batch(1, producer=(9, 0, 2))).base_offset == 6
    assert append(log, batch(4, producer=(9, 0, last - 1))) == (2, 5, -1, 0, True)


def test_producer_epochs_fence_and_begin_with_sequence_zero(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(1, producer=(9, 3, 0)))
    assert refusal(log, batch(1, producer=(9, 2, 1))) is ErrorCode.invalid_producer_epoch
    assert refusal(log, batch(1, producer=(9, 4, 1))) is ErrorCode.out_of_order_sequence_number
    assert append(log, batch(1, producer=(9, 4, 0))).base_offset == 1
    assert refusal(log, batch(1, producer=(9, 3, 1))) is ErrorCode.invalid_producer_epoch


def test_a_producer_without_state_may_begin_anywhere(tmp_path: Path) -> None:
    log = create(tmp_path)
    assert append(log, batch(1, producer=(9, 5, 1234))).base_offset == 0
    assert append(log, batch(1, producer=(9, 5, 1235))).base_offset == 1


def test_batches_of_one_append_see_each_other(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(2, producer=(9, 0, 0)), batch(1, producer=(9, 0, 2)))
    gap = [batch(1, producer=(9, 0, 3)), batch(1, producer=(9, 0, 5))]
    assert refusal(log, *gap) is ErrorCode.out_of_order_sequence_number
    mixed = [batch(1, producer=(9, 0, 2)), batch(1, producer=(9, 0, 3))]
    assert refusal(log, *mixed) is ErrorCode.duplicate_sequence_number
    assert log.log_end_offset == 3
    assert append(log, batch(1, producer=(9, 0, 3))).base_offset == 3


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("segment_bytes", [1 << 30, 200])
def test_a_restart_keeps_the_whole_window(
    tmp_path: Path, is_clean: bool, segment_bytes: int
) -> None:
    config = LogConfig(segment_bytes=segment_bytes)
    log = create(tmp_path, config=config)
    for sequence in range(10):
        append(log, batch(1, producer=(9, 0, sequence)))
        append(log, batch(1, producer=(10, 2, sequence)))
    if is_clean:
        log.close()
    again = reopen(tmp_path, config=config, is_clean=is_clean)
    for sequence in range(5, 10):
        assert append(again, batch(1, producer=(9, 0, sequence))).base_offset == 2 * sequence
    assert refusal(again, batch(1, producer=(9, 0, 4))) is ErrorCode.out_of_order_sequence_number
    assert refusal(again, batch(1, producer=(10, 1, 0))) is ErrorCode.invalid_producer_epoch
    assert append(again, batch(1, producer=(9, 0, 10))).base_offset == 20
    assert offsets_of(again) == list(range(21))


@pytest.mark.parametrize("damage", ["remove", "flip", "cut"])
def test_a_bad_snapshot_is_replaced_by_a_replay(tmp_path: Path, damage: str) -> None:
    log = create(tmp_path)
    for sequence in range(7):
        append(log, batch(1, producer=(9, 0, sequence)))
    log.close()
    [snapshot] = (tmp_path / "t-0").glob("*.snapshot")
    content = bytearray(snapshot.read_bytes())
    content[12] ^= 1
    match damage:
        case "remove":
            snapshot.unlink()
        case "flip":
            snapshot.write_bytes(content)
        case "cut":
            snapshot.write_bytes(content[:20])
    again = reopen(tmp_path, is_clean=True)
    assert append(again, batch(1, producer=(9, 0, 3))) == (3, 3, -1, 0, True)


def test_truncation_restores_the_producer_state(tmp_path: Path) -> None:
    log = create(tmp_path, config=LogConfig(segment_bytes=200))
    for sequence in range(10):
        append(log, batch(1, producer=(9, 0, sequence)))
    log.truncation.truncate_to(4, NOW_MS)
    assert append(log, batch(1, producer=(9, 0, 3))).is_duplicate
    assert append(log, batch(1, producer=(9, 0, 4))) == (4, 4, -1, 0, False)


def test_idle_producers_expire_by_the_clock_not_by_their_records(tmp_path: Path) -> None:
    log = create(tmp_path, config=LogConfig(producer_id_expiration_ms=1000, retention_ms=-1))
    append(log, batch(1, timestamp_ms=1, producer=(9, 0, 0)), now_ms=NOW_MS)
    log.cleanup.apply_retention(NOW_MS + 999, high_watermark=1)
    assert log.producers.get(9) is not None
    log.cleanup.apply_retention(NOW_MS + 1000, high_watermark=1)
    assert log.producers.get(9) is None


def test_snapshot_without_our_part_is_read_as_kafka_writes_it() -> None:
    state = ProducerState(40)
    for _, header in iter_headers(bytes(batch(3, producer=(9, 2, 5)))):
        state.record(header, 37, header.max_timestamp, NOW_MS)
    content = encode_snapshot(state)
    # version, crc, count, one entry of 46 bytes: Kafka's file ends here.
    assert content[:2] == b"\0\1"
    assert int.from_bytes(content[6:10], "big") == 1
    kafka_bytes = content[6 : 10 + 46]
    from crc32c import crc32c

    kafka = b"\0\1" + crc32c(kafka_bytes).to_bytes(4, "big") + kafka_bytes
    entry = decode_snapshot(kafka, 40, NOW_MS).get(9)
    assert entry is not None
    assert entry.epoch == 2
    assert entry.batches == [(7, 39, 2, NOW_MS + 2)]


def test_invalid_snapshots_are_refused() -> None:
    good = encode_snapshot(ProducerState(0))
    for content in (b"", b"\0", good[:-1], b"\0\2" + good[2:], good + b"x"):
        with pytest.raises(SnapshotCorruptError):
            decode_snapshot(content, 0, NOW_MS)


def test_flushed_and_unflushed_state_agree_after_a_crash(tmp_path: Path) -> None:
    log = create(tmp_path)
    append(log, batch(1, producer=(9, 0, 0)))
    flush(log)
    append(log, batch(1, producer=(9, 0, 1)))
    again = reopen(tmp_path, recovery_point=1)
    assert append(again, batch(1, producer=(9, 0, 1))).is_duplicate
