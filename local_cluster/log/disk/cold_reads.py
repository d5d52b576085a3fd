"""Loads file ranges that are not in the page cache, in threads beside the loop.

At most THREADS_MAX loads run at a time. The others queue, at most one per connection, so the
connections bound the queue. A load never touches a socket, so a slow consumer holds no thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

from local_cluster.log.disk import page_cache
from local_cluster.log.disk.page_cache import ColdReadError, Descriptor

_T = TypeVar("_T")

THREADS_MAX: Final = 4
"""Cold reads that wait for the disk at the same time."""
CHUNK_BYTES: Final = 1024 * 1024
"""Loaded before it is sent: what one slow disk read costs its consumer at most."""
READ_AHEAD_BYTES: Final = 4 * CHUNK_BYTES
"""What the kernel is asked to read meanwhile."""


class PageCache(Protocol):
    """PORT: the page cache. The functions of log/disk/page_cache.py are the real one."""

    def warm_bytes(self, fd: int, position: int, size_bytes: int) -> int: ...
    def read_now(self, fd: int, size_bytes: int, position: int) -> bytes | None: ...
    def load(self, fd: int, position: int, size_bytes: int, read_ahead_bytes: int) -> None: ...


class OsPageCache:
    """The page cache of this machine."""

    def warm_bytes(self, fd: int, position: int, size_bytes: int) -> int:
        return page_cache.warm_bytes(fd, position, size_bytes)

    def read_now(self, fd: int, size_bytes: int, position: int) -> bytes | None:
        return page_cache.read_now(fd, size_bytes, position)

    def load(self, fd: int, position: int, size_bytes: int, read_ahead_bytes: int) -> None:
        page_cache.load(fd, position, size_bytes, read_ahead_bytes)


class ColdReads:
    """The loads of one broker and their threads."""

    def __init__(self, page_cache: PageCache | None = None) -> None:
        self._page_cache: PageCache = page_cache or OsPageCache()
        self._pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="cold-read")
        self.loads = 0
        """How many ranges were loaded so far."""

    def warm_bytes(self, file: Descriptor, position: int, size_bytes: int) -> int:
        """Return how many bytes from `position` on can be read without waiting for the disk."""
        return self._page_cache.warm_bytes(file.fileno(), position, size_bytes)

    def read_now(self, file: Descriptor, size_bytes: int, position: int) -> bytes | None:
        """Read a range, up to the file's end. Return None if that would wait for the disk."""
        return self._page_cache.read_now(file.fileno(), size_bytes, position)

    def load(
        self,
        file: Descriptor,
        position: int,
        size_bytes: int,
        then: Callable[[asyncio.Future[None]], None],
    ) -> None:
        """Load a range in a thread, then call `then` on the loop with the ended future."""
        self._start_load(file, position, size_bytes).add_done_callback(then)

    async def warmed(self, cold: ColdReadError, lookup: Callable[[], _T]) -> _T:
        """Return the result of `lookup` once all that it reads is warm.

        `cold` is the first cold range that it met. A range that stays cold after its load, or
        cannot be loaded, is read on the loop: the file system reports no better, or the lookup has
        to meet the disk's error itself.
        """
        last: tuple[int, int] | None = None
        while True:
            where = (cold.file.fileno(), cold.position)
            try:
                await self._start_load(cold.file, cold.position, cold.size_bytes)
            except OSError:
                return lookup()
            if where == last:
                return lookup()
            last = where
            try:
                with page_cache.warm_only():
                    return lookup()
            except ColdReadError as another:
                cold = another

    def stop(self) -> None:
        """Start no more loads. Those that run end by themselves."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start_load(self, file: Descriptor, position: int, size_bytes: int) -> asyncio.Future[None]:
        self.loads += 1
        return asyncio.get_running_loop().run_in_executor(
            self._pool, self._load, file, position, size_bytes
        )

    def _load(self, file: Descriptor, position: int, size_bytes: int) -> None:
        # The argument keeps `file` open for as long as its descriptor is used.
        self._page_cache.load(file.fileno(), position, size_bytes, READ_AHEAD_BYTES)
