"""File systems for tests: one whose files can be wrapped, one that fails some calls in a row."""

from __future__ import annotations

import errno
from pathlib import Path

from local_cluster.log.disk.files import LogFile, OsFiles, Syncable


class WrappedFile:
    """A file that passes every call on."""

    def __init__(self, file: LogFile) -> None:
        self._file = file

    def fileno(self) -> int:
        return self._file.fileno()

    def write(self, buffer: bytes | bytearray | memoryview, /) -> int | None:
        return self._file.write(buffer)

    def pread(self, size_bytes: int, position: int) -> bytes:
        return self._file.pread(size_bytes, position)

    def truncate(self, size_bytes: int, /) -> int:
        return self._file.truncate(size_bytes)

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()


class FaultyFile(WrappedFile):
    """A file of a disk that fails as its plan says."""

    def __init__(self, file: LogFile, disk: FaultyFiles) -> None:
        super().__init__(file)
        self._disk = disk

    def write(self, buffer: bytes | bytearray | memoryview, /) -> int | None:
        if not self._disk.fails("write"):
            return super().write(buffer)
        view = memoryview(buffer)
        part = super().write(view[: len(view) * self._disk.tenths // 10])
        if self._disk.error == errno.ENOSPC and self._disk.tenths:
            # Linux writes what fits and reports it only by the count.
            return part
        raise OSError(self._disk.error, "injected")

    def truncate(self, size_bytes: int, /) -> int:
        self._disk.check("truncate")
        return super().truncate(size_bytes)

    def sync(self) -> None:
        self._disk.check("sync")
        super().sync()


class SyncedPath:
    """A directory or a small file that waits for its fsync."""

    def __init__(self, disk: FaultyFiles, file: Syncable) -> None:
        self._disk, self._file = disk, file

    def sync(self) -> None:
        self._disk.check("sync")
        self._file.sync()


class FaultyFiles(OsFiles):
    """The real file system; the calls `first` to `first + count - 1` that change it fail.

    A write that fails takes `tenths` tenths of its bytes; ENOSPC spares what needs no space
    (truncate, remove, sync).
    """

    def __init__(self, *, first: int, count: int, error: int, tenths: int) -> None:
        self.first, self.count, self.error, self.tenths = first, count, error, tenths
        self.calls: list[str] = []
        self.failed: list[str] = []

    @property
    def is_well(self) -> bool:
        return len(self.calls) >= self.first + self.count

    def heal(self) -> None:
        self.count = 0

    def fails(self, kind: str) -> bool:
        if self.error == errno.ENOSPC and kind in ("truncate", "remove", "sync"):
            return False
        number = len(self.calls)
        self.calls.append(kind)
        if self.first <= number < self.first + self.count:
            self.failed.append(kind)
            return True
        return False

    def check(self, kind: str) -> None:
        if self.fails(kind):
            raise OSError(self.error, f"injected into {kind}")

    def open(self, path: str, *, create: bool = False) -> LogFile:
        if create and not Path(path).exists():
            self.check("create")
        return FaultyFile(super().open(path, create=create), self)

    def replace(self, path: str, content: bytes, *, durable: bool) -> None:
        if self.fails("replace"):
            # The temporary file is written in part; or in full, and the rename failed.
            Path(path + ".tmp").write_bytes(content[: len(content) * self.tenths // 9])
            raise OSError(self.error, "injected into replace")
        super().replace(path, content, durable=durable)

    def rename(self, path: str, new_path: str) -> None:
        self.check("rename")
        super().rename(path, new_path)

    def remove(self, path: str) -> None:
        self.check("remove")
        super().remove(path)

    def remove_tree(self, path: str) -> None:
        self.check("remove")
        super().remove_tree(path)

    def make_dir(self, path: str) -> None:
        if not Path(path).exists():
            self.check("create")
        super().make_dir(path)

    def open_for_sync(self, path: str) -> Syncable:
        return SyncedPath(self, super().open_for_sync(path))
