"""PORT `Files`: every touch of the file system by the log, and `OsFiles`, the real one.

Guarantees a `Files` must keep:
- `LogFile.write` appends at the end of the file with one call and returns how many bytes went in.
- `LogFile.pread` returns fewer bytes than asked only at the end of the file.
- a `LogFile` stays readable after its path is renamed or removed, until the last reference goes.
- `replace` is atomic: a reader sees the old content or the new one; with `durable` the new one is
  on the disk, name included, when it returns.
- errors are OSError, with errno.

Not here: retries, caching, any knowledge of the formats.
"""

from __future__ import annotations

import fcntl
import io
import os
import shutil
from pathlib import Path
from typing import Protocol

from local_cluster.log.disk.page_cache import ColdReadError, is_warm_only, read_now


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


class OsFile(io.FileIO):
    """A file of the operating system. It closes itself when the last slice lets go of it.

    `write` is FileIO's own: one system call, no Python frame on the append path.
    """

    def pread(self, size_bytes: int, position: int) -> bytes:
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

    def sync(self) -> None:
        """Flush the content, and of the metadata what is needed to read it back."""
        os.fdatasync(self.fileno())

    def __del__(self) -> None:
        # Dropping the last reference is how segments close; FileIO would warn about it.
        self.close()


class OpenedForSync:
    """A small file or a directory that waits for its fsync, and closes with the last reference."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def sync(self) -> None:
        os.fsync(self._fd)

    def __del__(self) -> None:
        os.close(self._fd)


class OsFiles:
    """The real file system."""

    def open(self, path: str, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        if create:
            flags |= os.O_CREAT
        return OsFile(path, "a+b", opener=lambda name, _: os.open(name, flags, 0o644))

    def read_bytes(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def replace(self, path: str, content: bytes, *, durable: bool) -> None:
        temporary = Path(path + ".tmp")
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

    def open_for_sync(self, path: str) -> OpenedForSync:
        return OpenedForSync(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def lock(self, path: str) -> OsFile:
        """Take Kafka's `.lock` of a log directory; BlockingIOError where someone else has it.

        A POSIX record lock, as Java's FileChannel.tryLock, so that Kafka and we exclude each
        other. Closing the file gives it back.
        """
        file = self.open(path, create=True)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise BlockingIOError(error.errno, "in use by another process", path) from error
        return file
