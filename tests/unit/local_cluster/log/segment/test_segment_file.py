"""The open files of closed segments are bounded, and readers do not notice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.segment.segment_file import OPEN_FILES
from tests.unit.local_cluster.log.samples import append, batch, create, offsets_of, reopen

SEGMENTS = 30
LIMIT = 4


@pytest.fixture(autouse=True)
def few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPEN_FILES, "files_max", LIMIT)


def open_segments(directory: Path) -> int:
    """Return how many `.log` files below the directory this process has open."""
    names = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            names.append(os.readlink(entry))  # noqa: PTH115 - of a link without a target
        except FileNotFoundError:
            continue
    return sum(name.startswith(str(directory)) and name.endswith(".log") for name in names)


def test_reading_all_segments_keeps_few_files_open(tmp_path: Path) -> None:
    log = create(tmp_path, config=LogConfig(segment_bytes=len(batch(1))))
    for _ in range(SEGMENTS):
        append(log, batch(1))
    assert len(log.segments.all) == SEGMENTS
    assert open_segments(tmp_path) <= LIMIT + 1, "closed segments, and the active one"
    for _ in range(2):
        assert offsets_of(log) == list(range(SEGMENTS))
        assert open_segments(tmp_path) <= LIMIT + 1
    append(log, batch(1))
    log.close()
    again = reopen(tmp_path, config=log.config, is_clean=True)
    assert offsets_of(again) == list(range(SEGMENTS + 1))
    assert open_segments(tmp_path) <= 2 * (LIMIT + 1)


def test_a_slice_stays_readable_after_its_segment_let_the_file_go(tmp_path: Path) -> None:
    log = create(tmp_path, config=LogConfig(segment_bytes=len(batch(1))))
    for _ in range(SEGMENTS):
        append(log, batch(1))
    piece = log.reader.read(0, bytes_max=1_000, offset_limit=SEGMENTS, at_least_one_batch=True)
    assert offsets_of(log) == list(range(SEGMENTS))
    assert log.segments.all[0].file.opened is None
    assert len(piece.read()) == piece.size_bytes > 0


def test_a_segment_that_is_appended_to_again_keeps_its_file(tmp_path: Path) -> None:
    log = create(tmp_path, config=LogConfig(segment_bytes=2 * len(batch(1))))
    for _ in range(SEGMENTS):
        append(log, batch(1))
    log.truncation.truncate_to(5, 0)
    assert offsets_of(log) == list(range(5))
    other = create(tmp_path / "other", config=LogConfig(segment_bytes=len(batch(1))))
    for _ in range(SEGMENTS):
        append(other, batch(1))
    assert offsets_of(other) == list(range(SEGMENTS))
    append(log, batch(1))
    assert offsets_of(log) == list(range(6))
