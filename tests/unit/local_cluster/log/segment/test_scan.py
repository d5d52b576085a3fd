"""The search for a whole batch behind a broken one."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.log.disk.files import OsFiles
from local_cluster.log.segment.scan import CHUNK_BYTES, has_batch_after
from local_cluster.records.header import HEADER_BYTES, patch_base_offset
from tests.unit.local_cluster.log.samples import batch


def found(tmp_path: Path, content: bytes, offset_min: int) -> bool:
    path = tmp_path / "x.log"
    path.write_bytes(content)
    return has_batch_after(OsFiles().open(str(path)), 0, len(content), offset_min)


@pytest.mark.parametrize("start", [1, 60, 1000])
@pytest.mark.parametrize("codec", [0, 4])
def test_a_whole_batch_is_found_wherever_it_begins(tmp_path: Path, start: int, codec: int) -> None:
    whole = batch(2, codec=codec)
    patch_base_offset(whole, 0, 40)
    garbage = b"\x02\xff" * 600
    assert found(tmp_path, garbage[:start] + whole, 40)
    assert found(tmp_path, garbage[:start] + whole + b"torn", 7)
    assert not found(tmp_path, garbage[:start] + whole, 41)
    assert not found(tmp_path, garbage[:start] + whole[:-1], 0)
    whole[-1] ^= 1
    assert not found(tmp_path, garbage[:start] + whole, 0)


@pytest.mark.parametrize("before", [0, 1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1, 70])
def test_no_batch_is_missed_between_two_chunks(tmp_path: Path, before: int) -> None:
    start = 1 + CHUNK_BYTES - before
    assert found(tmp_path, bytes(start) + batch(2), 0)
