"""The last close of a deleted file does not happen on the loop."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local_cluster.log.disk.closing import THREAD_NAME
from local_cluster.log.disk.files import LogFile, OsFiles

WAIT_SECONDS = 10.0


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Closes:
    """Which thread closed which descriptor."""

    def __init__(self) -> None:
        self.threads: dict[int, str] = {}
        self._close = os.close

    def __call__(self, fd: int) -> None:
        self.threads[fd] = threading.current_thread().name
        self._close(fd)


@pytest.fixture
def closes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Closes]:
    found = Closes()
    with monkeypatch.context() as patched:
        patched.setattr(os, "close", found)
        yield found


def opened(path: Path) -> tuple[LogFile, int]:
    file = OsFiles().open(str(path), create=True)
    return file, file.fileno()


def test_a_deleted_file_is_closed_in_a_thread(tmp_path: Path, closes: Closes) -> None:
    file, fd = opened(tmp_path / "a")
    (tmp_path / "a").unlink()
    del file
    until(lambda: fd in closes.threads)
    assert closes.threads[fd] == THREAD_NAME


def test_so_is_one_that_only_a_garbage_collection_finds(tmp_path: Path, closes: Closes) -> None:
    file, fd = opened(tmp_path / "a")
    (tmp_path / "a").unlink()
    cycle: list[object] = [file]
    cycle.append(cycle)
    del file, cycle
    gc.collect()
    until(lambda: fd in closes.threads)
    assert closes.threads[fd] == THREAD_NAME


def test_a_file_with_a_name_is_closed_at_once(tmp_path: Path, closes: Closes) -> None:
    file, fd = opened(tmp_path / "a")
    del file
    assert closes.threads[fd] == threading.current_thread().name


def test_a_file_is_closed_once(tmp_path: Path, closes: Closes) -> None:
    file, fd = opened(tmp_path / "a")
    (tmp_path / "a").unlink()
    file.close()
    assert closes.threads.pop(fd) == threading.current_thread().name
    file.close()
    del file
    assert not closes.threads
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
