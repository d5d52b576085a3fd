"""Who waits for what of one replica: commits, news for readers, appends, the disk.

Guarantees: what is parked is settled once, in the order of its offsets; a watcher is called in the
order of its coming, so that simulations can be repeated.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable

from local_cluster.wire.errors import ErrorCode, KafkaError

Settle = Callable[[ErrorCode], None]
"""Told how a commit ended; must not raise."""


class PartitionWaits:
    """The part of a partition that others wait at."""

    def __init__(self, high_watermark: int) -> None:
        self.is_leader = False
        self._high_watermark = high_watermark
        self._parked: list[tuple[int, int, Settle]] = []
        self._ticket = itertools.count()
        self._watchers: dict[Callable[[], None], None] = {}
        """In the order of their coming, so that simulations can be repeated."""
        self._append_watchers: dict[Callable[[], None], None] = {}
        self._awaiting_disk: list[asyncio.Future[None]] = []

    @property
    def high_watermark(self) -> int:
        """The first offset that is not committed."""
        return self._high_watermark

    def committed(self, next_offset: int) -> asyncio.Future[None]:
        """A future for "everything below `next_offset` is committed"."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def settle(error_code: ErrorCode) -> None:
            if future.done():
                return
            if error_code:
                future.set_exception(KafkaError(error_code))
            else:
                future.set_result(None)

        self.when_committed(next_offset, settle)
        return future

    def when_committed(self, next_offset: int, settle: Settle) -> None:
        """Call `settle` once: with `none` when everything below `next_offset` is committed, with
        an error when that is not known to happen here any more. At once if it is so already."""
        if self._high_watermark >= next_offset:
            settle(ErrorCode.none)
        elif not self.is_leader:
            settle(ErrorCode.not_leader_or_follower)
        else:
            heapq.heappush(self._parked, (next_offset, next(self._ticket), settle))

    def fail_parked(self, code: ErrorCode) -> None:
        """Fail everything that waits for a commit, and wake the readers."""
        if code == ErrorCode.kafka_storage_error:
            self._settle_disk_waits(KafkaError(code))
        parked, self._parked = self._parked, []
        for _, _, settle in parked:
            settle(code)
        self._wake()
        self._wake_followers()

    def log_start_moved(self) -> None:
        """Tell the readers, for whom it is news: after retention, and deletion of records."""
        self._wake()

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever the high watermark, the log start or the leadership changes."""
        self._watchers[wake] = None

    def watch_appends(self, wake: Callable[[], None]) -> None:
        """Call `wake` for every append, and when this replica leads no more."""
        self._append_watchers[wake] = None

    def unwatch(self, wake: Callable[[], None]) -> None:
        self._watchers.pop(wake, None)
        self._append_watchers.pop(wake, None)

    def _settle_committed(self, end_offset: int) -> None:
        while self._parked and self._parked[0][0] <= end_offset:
            _, _, settle = heapq.heappop(self._parked)
            settle(ErrorCode.none)

    def _settle_disk_waits(self, error: KafkaError | None = None) -> None:
        waiting, self._awaiting_disk = self._awaiting_disk, []
        for future in waiting:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    def _wake(self) -> None:
        for wake in tuple(self._watchers):
            wake()

    def _wake_followers(self) -> None:
        for wake in tuple(self._append_watchers):
            wake()
