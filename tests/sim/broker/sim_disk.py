"""A disk in memory that loses unsynced data when the power goes.

Each file has the operating system's content and the disk's; a sync copies the first to the second.
A crash of the machine leaves a file with its synced content, with a part of the later writes (a
torn tail included), or with all of them. The names of files that were never synced may be gone;
renames, removals and durable replacements survive. The death of a process alone loses nothing.
"""

from __future__ import annotations

import errno
import posixpath
from random import Random

from local_cluster.log.disk.files import LogFile, Syncable

_FIRST_FD = 1_000_000


class _Inode:
    """The content of one file, as written and as synced."""

    __slots__ = ("content", "modified_ms", "synced")

    def __init__(self) -> None:
        self.content = bytearray()
        self.synced: bytes | None = None
        """None until its content and name are surely on the disk."""
        self.modified_ms = 0

    def sync(self) -> None:
        if self.synced is None or self.content != self.synced:
            self.synced = bytes(self.content)


class SimFile:
    """An open file; appended bytes are visible at once and durable after `sync`."""

    def __init__(self, disk: SimDisk, path: str, inode: _Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._life = disk.life

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "files of a simulated disk have no descriptor")

    def write(self, buffer: bytes | bytearray | memoryview, /) -> int:
        self._check()
        self._disk.require_writable(self._path)
        self._inode.content += buffer
        return len(buffer)

    def pread(self, size_bytes: int, position: int) -> bytes:
        return bytes(self._inode.content[position : position + size_bytes])

    def truncate(self, size_bytes: int, /) -> int:
        self._check()
        self._disk.require_healthy(self._path)
        content = self._inode.content
        if size_bytes <= len(content):
            del content[size_bytes:]
        else:
            self._disk.require_space()
            content += bytes(size_bytes - len(content))
        return size_bytes

    def sync(self) -> None:
        self._check()
        self._disk.require_healthy(self._path)
        self._inode.sync()

    def close(self) -> None:
        return

    def _check(self) -> None:
        if self._life != self._disk.life:
            raise OSError(errno.EIO, "the process of this file died")


class _SyncedDirectory:
    """An open directory; a sync makes the names in it durable."""

    def __init__(self, disk: SimDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def sync(self) -> None:
        self._disk.require_healthy(self._path)
        for name, inode in self._disk.files.items():
            if inode.synced is None and posixpath.dirname(name) == self._path:
                inode.synced = b""


class SimDisk:
    """The disk of one machine, as the port `Files`."""

    def __init__(self) -> None:
        self.files: dict[str, _Inode] = {}
        self.dirs: set[str] = {"/"}
        self.life = 0
        """Grows with each death of the process; its open files then refuse writes."""
        self.is_full = False
        self.failing: set[str] = set()
        """Top directories whose disk refuses writes and still serves reads."""

    # -- faults ---------------------------------------------------------------------------------

    def process_died(self) -> None:
        """Invalidate open files; all written data stays."""
        self.life += 1

    def power_lost(self, random: Random) -> None:
        """The machine lost its power: any unsynced data may be missing."""
        self.life += 1
        self.lose_pages(random, "/")

    def lose_pages(self, random: Random, top: str) -> None:
        """Any unsynced data below a directory may be missing."""
        for path, inode in sorted(self.files.items()):
            if not path.startswith(top):
                continue
            if inode.synced is None:
                if random.random() < 0.5:
                    del self.files[path]
                    continue
                inode.synced = b""
            after, before = bytes(inode.content), inode.synced
            if after.startswith(before):
                kept = random.choice(
                    (len(before), len(after), random.randint(len(before), len(after)))
                )
                after = after[:kept]
            elif random.random() < 0.5:
                after = before
            inode.content = bytearray(after)
            inode.synced = after

    # -- the port -------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> LogFile:
        inode = self.files.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self._require_dir(path)
            self.require_writable(path)
            inode = self.files[path] = _Inode()
        return SimFile(self, path, inode)

    def read_bytes(self, path: str) -> bytes:
        return bytes(self._inode(path).content)

    def replace(self, path: str, content: bytes, *, durable: bool) -> None:
        self._require_dir(path)
        self.require_writable(path)
        inode = _Inode()
        inode.content = bytearray(content)
        former = self.files.get(path)
        if durable:
            inode.synced = content
        elif former is not None:
            inode.synced = former.synced
        self.files[path] = inode

    def rename(self, path: str, new_path: str) -> None:
        self.require_healthy(path)
        if path in self.files:
            self.files[new_path] = self.files.pop(path)
            return
        if path not in self.dirs:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
        prefix = path + "/"
        for name in [name for name in self.files if name.startswith(prefix)]:
            self.files[new_path + name[len(path) :]] = self.files.pop(name)
        for name in [name for name in self.dirs if name == path or name.startswith(prefix)]:
            self.dirs.discard(name)
            self.dirs.add(new_path + name[len(path) :])

    def remove(self, path: str) -> None:
        self.require_healthy(path)
        self._inode(path)
        del self.files[path]

    def remove_tree(self, path: str) -> None:
        self.require_healthy(path)
        prefix = path + "/"
        for name in [name for name in self.files if name.startswith(prefix)]:
            del self.files[name]
        self.dirs = {name for name in self.dirs if name != path and not name.startswith(prefix)}

    def make_dir(self, path: str) -> None:
        if path not in self.dirs:
            self.require_healthy(path)
        while path not in self.dirs:
            self.dirs.add(path)
            path = posixpath.dirname(path)

    def list_dir(self, path: str) -> list[str]:
        if path not in self.dirs:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        prefix = path.rstrip("/") + "/"
        return sorted(
            {
                name[len(prefix) :].split("/", 1)[0]
                for name in (*self.files, *self.dirs)
                if name.startswith(prefix) and name != path
            }
        )

    def is_dir(self, path: str) -> bool:
        return path in self.dirs

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.dirs

    def size_bytes(self, path: str) -> int:
        return len(self._inode(path).content)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._inode(path).modified_ms = modified_ms

    def open_for_sync(self, path: str) -> Syncable:
        inode = self.files.get(path)
        return SimFile(self, path, inode) if inode is not None else _SyncedDirectory(self, path)

    def lock(self, path: str) -> LogFile:
        return self.open(path, create=True)

    @property
    def is_healthy(self) -> bool:
        return not self.is_full and not self.failing

    def require_writable(self, path: str) -> None:
        self.require_healthy(path)
        self.require_space()

    def require_healthy(self, path: str) -> None:
        if self.failing and "/" + path.split("/", 2)[1] in self.failing:
            raise OSError(errno.EIO, "the simulated disk failed", path)

    def require_space(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "the simulated disk is full")

    def _inode(self, path: str) -> _Inode:
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", path) from None

    def _require_dir(self, path: str) -> None:
        if posixpath.dirname(path) not in self.dirs:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
