"""A flipped bit in the length of a batch: nothing behind it is skipped silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.partition.partition_log import PartitionLog
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

CONFIG = LogConfig(segment_bytes=2_000, index_interval_bytes=1_000)
LENGTH_AT = 8
DAMAGED = 10


def damaged(
    directory: Path, bit: int, config: LogConfig = CONFIG, value: bytes = b"value"
) -> PartitionLog:
    """Make three segments after a clean shutdown, with a flipped bit in one batch's length."""
    log = create(directory, config=config)
    while len(log.segments.all) < 3:
        append(log, batch(1, value=value))
    positions = {header.base_offset: at for at, header in iter_headers(read_all(log))}
    end_offset = log.log_end_offset
    flush(log)
    log.close()
    path = directory / "t-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[positions[DAMAGED] + LENGTH_AT + 3 - bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    return reopen(directory, config=config, recovery_point=end_offset, is_clean=True)


@pytest.mark.parametrize("bit", [7, 12, 31])
def test_offsets_behind_a_damaged_length_are_refused_and_the_next_segment_is_read(
    tmp_path: Path, bit: int
) -> None:
    log = damaged(tmp_path, bit)
    end_offset, second = log.log_end_offset, log.segments.all[1].base_offset

    def first_of(offset: int, limit: int = end_offset) -> int:
        piece = log.reader.read(offset, bytes_max=200, offset_limit=limit, at_least_one_batch=True)
        return next(header.base_offset for _, header in iter_headers(piece.read()))

    assert first_of(DAMAGED - 1) == DAMAGED - 1
    with pytest.raises(KafkaError) as refused:
        first_of(DAMAGED + 1)
    assert refused.value.code is ErrorCode.corrupt_message
    with pytest.raises(KafkaError, match="offset 12"):
        first_of(DAMAGED - 1, limit=DAMAGED + 2)
    assert first_of(second) == second
    log.close()


@pytest.mark.parametrize("bit", range(14))
def test_the_text_of_a_record_is_not_taken_for_a_batch(tmp_path: Path, bit: int) -> None:
    """Taken for a base offset, eight letters are so large that any offset seems to be found."""
    config = LogConfig(segment_bytes=20_000, index_interval_bytes=100_000)
    log = damaged(tmp_path, bit, config, b"The quick brown fox jumps over the lazy dog. " * 8)
    for offset in range(DAMAGED + 1, log.segments.all[1].base_offset):
        with pytest.raises(KafkaError, match=f"offset {offset}"):
            log.reader.read(
                offset, bytes_max=2_000, offset_limit=log.log_end_offset, at_least_one_batch=True
            )
    log.close()


def test_a_read_of_a_damaged_batch_does_not_return_the_rest_of_the_segment(tmp_path: Path) -> None:
    log = damaged(tmp_path, 31)
    with pytest.raises(KafkaError) as refused:
        log.reader.read(
            DAMAGED, bytes_max=200, offset_limit=log.log_end_offset, at_least_one_batch=True
        )
    assert refused.value.code is ErrorCode.corrupt_message
    log.close()


@pytest.mark.parametrize("index_interval_bytes", [50, 1_000, 10_000])
@pytest.mark.parametrize("bit", [0, 7, 12, 31])
def test_a_truncation_behind_a_damaged_length_leaves_nothing_of_it(
    tmp_path: Path, bit: int, index_interval_bytes: int
) -> None:
    """A follower that must truncate has to end there or before, or it must do so for ever."""
    config = LogConfig(segment_bytes=2_000, index_interval_bytes=index_interval_bytes)
    for offset in (DAMAGED, DAMAGED + 1, DAMAGED + 2, DAMAGED + 11):
        directory = tmp_path / str(offset)
        log = damaged(directory, bit, config)
        log.truncation.truncate_to(offset, NOW_MS).run()
        end_offset = log.log_end_offset
        # An index entry behind the damage leads past it.
        assert end_offset in (min(offset, DAMAGED), offset)
        append(log, batch(2), batch(1))
        log.close()
        again = reopen(directory, config=config, is_clean=end_offset == offset > DAMAGED)
        assert again.corruption is None
        assert again.log_end_offset == end_offset + 3
        if end_offset <= DAMAGED:
            assert offsets_of(again) == list(range(end_offset + 3))
        again.close()
