"""Loading what is not in the page cache, in threads beside the loop.

At most THREADS_MAX loads run; the others queue, one per connection at most, so the queue is bound
by the connections. A load never touches a socket, so a slow reader holds no thread.
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
"""Cold reads that wait for the disk side by side."""
CHUNK_BYTES: Final = 1024 * 1024
"""How much is loaded before it is sent: what one slow disk read costs its reader at most."""
READ_AHEAD_BYTES: Final = 4 * CHUNK_BYTES
"""What the kernel is asked to begin with meanwhile."""


class PageCache(Protocol):
    """The port; the functions of log/disk/page_cache.py are the real one."""

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
    """The threads that load, and what they load from."""

    def __init__(self, page_cache: PageCache | None = None) -> None:
        self._page_cache: PageCache = page_cache or OsPageCache()
        self._pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="cold-read")
        self.loads = 0
        """How many ranges were loaded so far."""

    def warm_bytes(self, file: Descriptor, position: int, size_bytes: int) -> int:
        """How much from `position` on may be read without waiting for the disk."""
        return self._page_cache.warm_bytes(file.fileno(), position, size_bytes)

    def read_now(self, file: Descriptor, size_bytes: int, position: int) -> bytes | None:
        """A range, shorter where the file ends; None where it would be waited for."""
        return self._page_cache.read_now(file.fileno(), size_bytes, position)

    def load(
        self,
        file: Descriptor,
        position: int,
        size_bytes: int,
        then: Callable[[asyncio.Future[None]], None],
    ) -> None:
        """Load a range in a thread, then call `then` on the loop with how it went."""
        self._loading(file, position, size_bytes).add_done_callback(then)

    async def warmed(self, cold: ColdReadError, lookup: Callable[[], _T]) -> _T:
        """What `lookup` gives when all that it reads is warm; `cold` is what it met first.

        A range that stays cold after it was loaded, or cannot be, is read on the loop: the file
        system cannot say better, or the lookup is to meet the error of the disk itself.
        """
        last: tuple[int, int] | None = None
        while True:
            where = (cold.file.fileno(), cold.position)
            try:
                await self._loading(cold.file, cold.position, cold.size_bytes)
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
        """No more loads; those that run end by themselves."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _loading(self, file: Descriptor, position: int, size_bytes: int) -> asyncio.Future[None]:
        self.loads += 1
        return asyncio.get_running_loop().run_in_executor(
            self._pool, self._load, file, position, size_bytes
        )

    def _load(self, file: Descriptor, position: int, size_bytes: int) -> None:
        # `file` is held for as long as its descriptor is used.
        self._page_cache.load(file.fileno(), position, size_bytes, READ_AHEAD_BYTES)
