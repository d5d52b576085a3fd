"""A file system that fails some calls in a row: the n-th one that changes anything, and after."""

from __future__ import annotations

import errno
from pathlib import Path

from local_cluster.log.disk.files import OsFile, OsFiles, Syncable


class FaultyFile(OsFile):
    """A file of a disk that goes wrong as its plan says."""

    disk: FaultyFiles

    def write(self, buffer: bytes | bytearray | memoryview) -> int | None:  # type: ignore[override]
        if not self.disk.fails("write"):
            return super().write(buffer)
        view = memoryview(buffer)
        part = super().write(view[: len(view) * self.disk.tenths // 10])
        if self.disk.error == errno.ENOSPC and self.disk.tenths:
            # Linux takes what fits and says so only by the count.
            return part
        raise OSError(self.disk.error, "injected")

    def truncate(self, size_bytes: int | None = None, /) -> int:
        self.disk.check("truncate")
        return super().truncate(size_bytes)

    def sync(self) -> None:
        self.disk.check("sync")
        super().sync()


class SyncedPath:
    """A directory or a small file that waits for its fsync."""

    def __init__(self, disk: FaultyFiles, file: Syncable) -> None:
        self._disk, self._file = disk, file

    def sync(self) -> None:
        self._disk.check("sync")
        self._file.sync()


class FaultyFiles(OsFiles):
    """The real file system; calls number `first` to `first + count - 1` that change it fail.

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

    def open(self, path: str, *, create: bool = False) -> FaultyFile:
        if create and not Path(path).exists():
            self.check("create")
        plain = super().open(path, create=create)
        plain.close()
        file = FaultyFile(path, "a+b")
        file.disk = self
        return file

    def replace(self, path: str, content: bytes, *, durable: bool) -> None:
        if self.fails("replace"):
            # The temporary file is there in part; or, with all of it, the rename failed.
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

    def open_for_sync(self, path: str) -> SyncedPath:  # type: ignore[override]
        return SyncedPath(self, super().open_for_sync(path))
