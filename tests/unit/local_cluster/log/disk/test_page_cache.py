"""The page cache of real files, on file systems that report it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local_cluster.log.disk import page_cache

FILE_BYTES = 8 * 1024 * 1024
COLD_SECONDS_MAX = 60.0


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(FILE_BYTES))
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def await_cold(fd: int, is_cold: Callable[[], bool]) -> None:
    """Drop the pages until a probe finds them gone.

    A look begins a read-ahead on newer kernels, which may end after the drop that follows it.
    """
    page_cache.drop(fd)
    if page_cache.warm_bytes(fd, 0, FILE_BYTES) == FILE_BYTES:
        pytest.skip("this file system never lets go of its pages, or cannot say")
    deadline = time.monotonic() + COLD_SECONDS_MAX
    while time.monotonic() < deadline:
        time.sleep(0.05)
        page_cache.drop(fd)
        if is_cold():
            return
    raise TimeoutError("dropped pages are still said to be warm")


def test_a_file_just_written_is_warm(fd: int) -> None:
    assert page_cache.warm_bytes(fd, 0, FILE_BYTES) == FILE_BYTES
    assert page_cache.warm_bytes(fd, FILE_BYTES - 1, 1) == 1
    assert len(page_cache.read_now(fd, 1000, 5) or b"") == 1000


def test_dropped_pages_are_cold_until_they_are_loaded(fd: int) -> None:
    await_cold(fd, lambda: page_cache.warm_bytes(fd, 4096, FILE_BYTES - 4096) == 0)
    await_cold(fd, lambda: page_cache.read_now(fd, 1000, FILE_BYTES // 2) is None)
    page_cache.load(fd, 0, FILE_BYTES, 0)
    assert page_cache.warm_bytes(fd, 0, FILE_BYTES) == FILE_BYTES


def test_a_read_beyond_the_end_is_short_and_not_cold(fd: int) -> None:
    assert page_cache.read_now(fd, 1000, FILE_BYTES - 10) == os.pread(fd, 10, FILE_BYTES - 10)
    assert page_cache.read_now(fd, 1000, FILE_BYTES) == b""


def test_loading_beyond_the_end_ends(fd: int) -> None:
    page_cache.load(fd, FILE_BYTES - 10, 1_000_000, 0)
