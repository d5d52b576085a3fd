"""Which parts of a file are in the page cache: asking without waiting for the disk, and loading.

A read that waits for the disk stops everything else on the event loop. So the loop asks first
(`preadv` with RWF_NOWAIT, Linux 4.14), and a thread loads cold ranges. File systems that cannot
answer (tmpfs) count as warm: they have nothing slower below them.

Inside `warm_only` a pread of a log file raises `ColdReadError` instead of waiting. The caller that
catches it has the range loaded and repeats its lookup. For that reason lookups change nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

PROBE_STRIDE_BYTES: Final = 128 * 1024
"""One byte per stride is probed. It is the kernel's usual read-ahead, the unit in which pages come
and, nearly always, go."""
LOAD_BYTES: Final = 256 * 1024
"""Bytes of one read while a cold range is loaded."""

_RWF_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_UNSUPPORTED: Final = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)

_warm_only: ContextVar[bool] = ContextVar("warm_only", default=False)


class Descriptor(Protocol):
    """An open file."""

    def fileno(self) -> int: ...


class ColdReadError(Exception):
    """The bytes are not in the page cache; `file` stays open as long as this is held."""

    def __init__(self, file: Descriptor, position: int, size_bytes: int) -> None:
        super().__init__(f"{size_bytes} bytes at {position} are not in the page cache")
        self.file = file
        self.position = position
        self.size_bytes = size_bytes


@contextmanager
def warm_only() -> Iterator[None]:
    """Make reads of log files raise ColdReadError in this context, instead of waiting."""
    token = _warm_only.set(True)
    try:
        yield
    finally:
        _warm_only.reset(token)


def is_warm_only() -> bool:
    """Return whether reads of log files must not wait for the disk."""
    return _warm_only.get()


def read_now(fd: int, size_bytes: int, position: int) -> bytes | None:
    """Return what a pread would; None where all or a part of it is not in the page cache."""
    if _RWF_NOWAIT is None:
        return os.pread(fd, size_bytes, position)
    buffer = bytearray(size_bytes)
    try:
        count = os.preadv(fd, [buffer], position, _RWF_NOWAIT)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        return os.pread(fd, size_bytes, position)
    if count < size_bytes and position + count < os.fstat(fd).st_size:
        return None
    return bytes(memoryview(buffer)[:count])


def warm_bytes(fd: int, position: int, size_bytes: int) -> int:
    """Return how many bytes from `position` on are in the page cache, at most `size_bytes`.

    Only one byte of each stride is probed. Raises OSError.
    """
    if _RWF_NOWAIT is None:
        return size_bytes
    byte = bytearray(1)
    last = position + size_bytes - 1
    at = position
    while True:
        try:
            os.preadv(fd, [byte], at, _RWF_NOWAIT)
        except BlockingIOError:
            return max(at - position, 0)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            return size_bytes
        if at >= last:
            return size_bytes
        at = min(at + PROBE_STRIDE_BYTES, last)


def load(fd: int, position: int, size_bytes: int, read_ahead_bytes: int) -> None:
    """Load a range into the page cache, and start loading what follows. Blocks. Raises OSError."""
    os.posix_fadvise(fd, position, size_bytes + read_ahead_bytes, os.POSIX_FADV_WILLNEED)
    buffer = memoryview(bytearray(min(LOAD_BYTES, size_bytes)))
    end = position + size_bytes
    while position < end:
        count = os.preadv(fd, [buffer[: end - position]], position)
        if not count:
            return
        position += count


def drop(fd: int) -> None:
    """Drop a file's clean pages: a cold file without root's drop_caches, for measurements."""
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
