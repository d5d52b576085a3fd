"""Crashes and damage at any byte: what recovery keeps, truncates, and refuses to change."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local_cluster.log.config.log_config import LogConfig
from tests.unit.local_cluster.log.samples import (
    NOW_MS,
    append,
    batch,
    create,
    offsets_of,
    read_all,
    reopen,
)

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=100)
SIZES = (1, 3, 2, 5, 1, 4, 2, 3)


@contextmanager
def written_log() -> Iterator[tuple[Path, Path, list[tuple[int, int]]]]:
    """A log that was not closed, and (end position, next offset) of the last segment's batches."""
    root = Path(tempfile.mkdtemp(prefix="log-recovery-"))
    try:
        log = create(root, config=CONFIG)
        ends: list[tuple[int, int]] = []
        for index, count in enumerate(SIZES):
            append(
                log,
                batch(count, timestamp_ms=NOW_MS + index, producer=(9, 0, sum(SIZES[:index]))),
                epoch=index // 2,
            )
        path = Path(log.segments.active.log_path)
        position, base = 0, log.segments.base_offsets[-1]
        next_offset = 0
        for count in SIZES:
            next_offset += count
            if next_offset > base:
                position += len(batch(count, producer=(9, 0, 0)))
                ends.append((position, next_offset))
        assert path.stat().st_size == position
        assert len(ends) >= 2, "the last segment holds several batches"
        yield root, path, ends
    finally:
        shutil.rmtree(root)


def whole_before(ends: list[tuple[int, int]], base: int, size: int) -> tuple[int, int]:
    """Return (bytes, next offset) of the whole batches in the first `size` bytes."""
    return max(
        ((position, offset) for position, offset in ends if position <= size),
        default=(0, base),
    )


def test_a_tail_torn_at_every_byte_is_truncated_to_the_last_whole_batch() -> None:
    with written_log() as (root, path, ends):
        content = path.read_bytes()
        base = int(path.stem)
        pristine = root.with_name(root.name + "-pristine")
        shutil.copytree(root, pristine)
        try:
            for size in range(len(content)):
                shutil.rmtree(root)
                shutil.copytree(pristine, root)
                path.write_bytes(content[:size])
                log = reopen(root, config=CONFIG)
                kept, next_offset = whole_before(ends, base, size)
                assert log.corruption is None
                assert log.log_end_offset == next_offset, size
                assert path.read_bytes() == content[:kept]
                assert offsets_of(log) == list(range(next_offset))
                # The producer continues with the first record that was lost.
                result = append(log, batch(1, producer=(9, 0, next_offset)), epoch=9)
                assert result.base_offset == next_offset
                log.close()
                again = reopen(root, config=CONFIG, is_clean=True)
                assert offsets_of(again) == list(range(next_offset + 1))
        finally:
            shutil.rmtree(pristine)


@pytest.mark.parametrize("size", [1, 61, 200])
def test_zeros_behind_the_tail_are_truncated(size: int) -> None:
    with written_log() as (root, path, ends):
        content = path.read_bytes()
        path.write_bytes(content + bytes(size))
        log = reopen(root, config=CONFIG)
        assert log.corruption is None
        assert log.log_end_offset == ends[-1][1]
        assert path.read_bytes() == content


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_one_flipped_bit_is_never_served_nor_truncated(data: st.DataObject) -> None:
    with written_log() as (root, path, ends):
        target = data.draw(st.sampled_from(sorted(path.parent.glob("*.log"))))
        content = bytearray(target.read_bytes())
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] ^= 1 << data.draw(st.integers(0, 7))
        target.write_bytes(content)
        before = {file: file.read_bytes() for file in path.parent.glob("*.log")}
        log = reopen(root, config=CONFIG)
        # Base offset and leader epoch lie outside the CRC. Damage there shows only if it breaks the
        # order of the offsets.
        served = read_all(log)
        original = b"".join(before[file] for file in sorted(before))
        assert original.startswith(served)
        if log.corruption is not None:
            assert {file: file.read_bytes() for file in before} == before
        else:
            assert log.log_end_offset >= ends[-1][1]


def test_no_flipped_bit_of_the_last_batch_makes_it_a_torn_tail() -> None:
    with written_log() as (root, path, ends):
        content = path.read_bytes()
        for bit in range(8 * ends[-2][0], 8 * len(content)):
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            log = reopen(root, config=CONFIG)
            assert path.read_bytes() == flipped, bit
            if log.corruption is None:
                # The CRC covers neither a base offset that grew nor the epoch.
                assert log.log_end_offset >= ends[-1][1], bit


@settings(max_examples=80, deadline=None)
@given(content=st.binary(max_size=300), keep=st.integers(0, 3))
def test_arbitrary_bytes_in_place_of_the_tail(content: bytes, keep: int) -> None:
    with written_log() as (root, path, ends):
        original = path.read_bytes()
        kept, next_offset = ([(0, int(path.stem)), *ends])[min(keep, len(ends))]
        path.write_bytes(original[:kept] + content)
        log = reopen(root, config=CONFIG)
        assert log.corruption is None
        assert log.log_end_offset >= next_offset
        assert path.read_bytes().startswith(original[:kept])
        append(log, batch(1))
        log.close()
        assert reopen(root, config=CONFIG).log_end_offset == log.log_end_offset


@settings(max_examples=60, deadline=None)
@given(content=st.binary(max_size=120), suffix=st.sampled_from(["index", "timeindex", "snapshot"]))
def test_arbitrary_bytes_as_an_index_or_snapshot_after_a_crash(content: bytes, suffix: str) -> None:
    with written_log() as (root, path, ends):
        for file in path.parent.glob(f"*.{suffix}"):
            file.write_bytes(content)
        log = reopen(root, config=CONFIG)
        assert log.log_end_offset == ends[-1][1]
        assert offsets_of(log) == list(range(ends[-1][1]))
        for offset in range(ends[-1][1]):
            piece = log.reader.read(
                offset, bytes_max=1, offset_limit=ends[-1][1], at_least_one_batch=True
            )
            assert piece.size_bytes
        assert append(log, batch(4, producer=(9, 0, sum(SIZES[:5])))).is_duplicate


@pytest.mark.parametrize("bit", range(8))
def test_a_base_offset_that_grew_never_loses_the_batch_behind_it(bit: int) -> None:
    # The base offset lies outside the CRC: only the batch behind it shows that it is wrong.
    with written_log() as (root, path, ends):
        before_last = ends[-3][0] if len(ends) > 2 else 0
        content = bytearray(path.read_bytes())
        content[before_last + 6] ^= 1 << bit
        path.write_bytes(content)
        log = reopen(root, config=CONFIG)
        assert log.corruption is not None
        assert path.read_bytes() == content
