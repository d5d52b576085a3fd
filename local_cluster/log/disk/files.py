"""PORT `Files`: every access of the log to the file system, and `OsFiles`, the real one.

Guarantees that an implementation of `Files` keeps:
- `LogFile.write` appends at the end of the file with one call and returns the bytes written.
- `LogFile.pread` returns fewer bytes than asked only at the end of the file.
- A `LogFile` stays readable after its path is renamed or removed, until the last reference goes.
- `replace` is atomic: a reader sees the old content or the new one. With `durable`, the new
  content and its name are on the disk when it returns.
- Errors are OSError, with errno.

Not here: retries, caching, any knowledge of the formats.
"""

from __future__ import annotations

import fcntl
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final, Protocol

from local_cluster.log.disk.closing import FileCloser
from local_cluster.log.disk.page_cache import ColdReadError, is_warm_only, read_now

TEMPORARY_SUFFIX: Final = ".tmp"
"""`replace` writes here first; what a crash leaves there is removed by a start."""


class Syncable(Protocol):
    """Something whose content can be forced to the disk, whatever its path is by then."""

    def sync(self) -> None: ...


class LogFile(Syncable, Protocol):
    """An open file that is appended to and read at positions."""

    def fileno(self) -> int: ...
    def write(self, buffer: bytes | bytearray | memoryview, /) -> int | None: ...
    def pread(self, size_bytes: int, position: int) -> bytes: ...
    def truncate(self, size_bytes: int, /) -> int: ...
    def close(self) -> None: ...


class Files(Protocol):
    """The file system as the log sees it. Paths are absolute strings with `/`."""

    def open(self, path: str, *, create: bool = False) -> LogFile: ...
    def read_bytes(self, path: str) -> bytes: ...
    def replace(self, path: str, content: bytes, *, durable: bool) -> None: ...
    def rename(self, path: str, new_path: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def remove_tree(self, path: str) -> None: ...
    def make_dir(self, path: str) -> None: ...
    def list_dir(self, path: str) -> list[str]: ...
    def is_dir(self, path: str) -> bool: ...
    def exists(self, path: str) -> bool: ...
    def size_bytes(self, path: str) -> int: ...
    def modified_ms(self, path: str) -> int: ...
    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...
    def open_for_sync(self, path: str) -> Syncable: ...
    def lock(self, path: str) -> LogFile: ...


class OsFile:
    """A file of the operating system. It closes when the last reference goes."""

    closer: ClassVar = FileCloser()

    def __init__(self, fd: int) -> None:
        """Own a descriptor that was opened to append."""
        self._fd = fd
        # It must not own the descriptor: a garbage collection may finalize it before this object.
        self._raw = io.FileIO(fd, "a+b", closefd=False)
        # FileIO's own methods: one system call, no Python frame on the append and fetch paths.
        self.write: Callable[[bytes | bytearray | memoryview], int | None] = self._raw.write
        self.fileno: Callable[[], int] = self._raw.fileno

    def pread(self, size_bytes: int, position: int) -> bytes:
        """Read at a position. Raises ColdReadError inside of `page_cache.warm_only`."""
        fd = self.fileno()
        if is_warm_only():
            warm = read_now(fd, size_bytes, position)
            if warm is None:
                raise ColdReadError(self, position, size_bytes)
            return warm
        chunk = os.pread(fd, size_bytes, position)
        if len(chunk) == size_bytes or not chunk:
            return chunk
        parts = [chunk]
        missing = size_bytes - len(chunk)
        while missing:
            position += len(chunk)
            chunk = os.pread(fd, missing, position)
            if not chunk:
                break
            parts.append(chunk)
            missing -= len(chunk)
        return b"".join(parts)

    def truncate(self, size_bytes: int) -> int:
        return self._raw.truncate(size_bytes)

    def sync(self) -> None:
        """Flush the content, and the metadata that is needed to read it back."""
        os.fdatasync(self.fileno())

    def close(self) -> None:
        if not self._raw.closed:
            self._raw.close()
            os.close(self._fd)

    def __del__(self) -> None:
        # Segments close by dropping the last reference.
        if not self._raw.closed:
            self._raw.close()
            self.closer.close(self._fd)


class OpenedForSync:
    """A small file or a directory that waits for its fsync; closes with the last reference."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def sync(self) -> None:
        os.fsync(self._fd)

    def __del__(self) -> None:
        os.close(self._fd)


class OsFiles:
    """The real file system."""

    def open(self, path: str, *, create: bool = False) -> LogFile:
        OsFile.closer.start()
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        if create:
            flags |= os.O_CREAT
        return OsFile(os.open(path, flags, 0o644))

    def read_bytes(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def replace(self, path: str, content: bytes, *, durable: bool) -> None:
        temporary = Path(path + TEMPORARY_SUFFIX)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
        if durable:
            self.open_for_sync(str(temporary.parent)).sync()

    def rename(self, path: str, new_path: str) -> None:
        Path(path).rename(new_path)

    def remove(self, path: str) -> None:
        Path(path).unlink()

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def make_dir(self, path: str) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    def list_dir(self, path: str) -> list[str]:
        return sorted(entry.name for entry in Path(path).iterdir())

    def is_dir(self, path: str) -> bool:
        return Path(path).is_dir()

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def size_bytes(self, path: str) -> int:
        return Path(path).stat().st_size

    def modified_ms(self, path: str) -> int:
        return Path(path).stat().st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def open_for_sync(self, path: str) -> Syncable:
        return OpenedForSync(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def lock(self, path: str) -> LogFile:
        """Take Kafka's `.lock` of a log directory; closing the file releases it.

        A POSIX record lock, as Java's FileChannel.tryLock, so that Kafka and this broker exclude
        each other. Raises BlockingIOError where another process holds it.
        """
        file = self.open(path, create=True)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise BlockingIOError(error.errno, "in use by another process", path) from error
        return file
