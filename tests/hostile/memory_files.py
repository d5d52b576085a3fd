"""The port `Files` over a dictionary: thousands of log directories a second, without a disk."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from local_cluster.log.disk.files import TEMPORARY_SUFFIX, LogFile, Syncable

MODIFIED_MS = 1_700_000_000_000


class MemoryFile:
    """An open file. It stays readable after its path is gone."""

    def __init__(self, content: bytearray) -> None:
        self._content = content

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a file in memory has no descriptor")

    def write(self, buffer: bytes | bytearray | memoryview, /) -> int:
        self._content += buffer
        return len(buffer)

    def pread(self, size_bytes: int, position: int) -> bytes:
        if position < 0:
            raise OSError(errno.EINVAL, "a negative position")
        return bytes(self._content[position : position + size_bytes])

    def truncate(self, size_bytes: int, /) -> int:
        del self._content[size_bytes:]
        self._content += bytes(size_bytes - len(self._content))
        return size_bytes

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass


class MemoryFiles:
    """The files under one root."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.contents = {path: bytearray(content) for path, content in contents.items()}

    def _found(self, path: str) -> bytearray:
        content = self.contents.get(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return content

    def open(self, path: str, *, create: bool = False) -> LogFile:
        if create:
            self.contents.setdefault(path, bytearray())
        return MemoryFile(self._found(path))

    def read_bytes(self, path: str) -> bytes:
        return bytes(self._found(path))

    def replace(self, path: str, content: bytes, *, durable: bool) -> None:
        self.contents.pop(path + TEMPORARY_SUFFIX, None)
        self.contents[path] = bytearray(content)

    def rename(self, path: str, new_path: str) -> None:
        if path in self.contents:
            self.contents[new_path] = self.contents.pop(path)
            return
        for name in self._under(path):
            self.contents[new_path + name.removeprefix(path)] = self.contents.pop(name)

    def remove(self, path: str) -> None:
        self._found(path)
        del self.contents[path]

    def remove_tree(self, path: str) -> None:
        for name in self._under(path):
            del self.contents[name]

    def make_dir(self, path: str) -> None:
        """Do nothing: a directory exists while a file is in it."""

    def list_dir(self, path: str) -> list[str]:
        rests = (name.removeprefix(path + "/") for name in self._under(path))
        return sorted({rest.partition("/")[0] for rest in rests})

    def is_dir(self, path: str) -> bool:
        return path not in self.contents and bool(self._under(path))

    def exists(self, path: str) -> bool:
        return path in self.contents or bool(self._under(path))

    def size_bytes(self, path: str) -> int:
        return len(self._found(path))

    def modified_ms(self, path: str) -> int:
        self._found(path)
        return MODIFIED_MS

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._found(path)

    def open_for_sync(self, path: str) -> Syncable:
        return MemoryFile(bytearray())

    def lock(self, path: str) -> LogFile:
        return MemoryFile(bytearray())

    def _under(self, path: str) -> list[str]:
        return [name for name in self.contents if name.startswith(path + "/")]
