"""The operations that wait on one replica. Kafka calls such a place a purgatory.

    delayed produce          waits until the high watermark reaches the end of its records
    delayed consumer fetch   waits for a change of high watermark, log start or leadership
    delayed follower fetch   waits for an append too

Guarantees: a delayed produce completes once, in the order of the offsets. Delayed fetches wake in
the order of their arrival, so that simulations can be repeated.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable

from local_cluster.wire.errors import ErrorCode, KafkaError

CompleteProduce = Callable[[ErrorCode], None]
"""Takes `none` after a commit, else why the outcome is not known. Must not raise."""
Wake = Callable[[], None]
"""Wakes one delayed fetch, again and again until it is unwatched. Must not raise."""


class Purgatory:
    """The delayed operations of one replica."""

    def __init__(self) -> None:
        self._produces: list[tuple[int, int, CompleteProduce]] = []
        """A heap by offset, then by arrival."""
        self._ticket = itertools.count()
        self._watchers: dict[Wake, None] = {}
        self._append_watchers: dict[Wake, None] = {}

    def delay_produce(self, next_offset: int, complete: CompleteProduce) -> None:
        """Call `complete` when the high watermark reaches `next_offset`."""
        heapq.heappush(self._produces, (next_offset, next(self._ticket), complete))

    def complete_produces(self, high_watermark: int) -> None:
        """Complete every produce whose records lie below the high watermark."""
        while self._produces and self._produces[0][0] <= high_watermark:
            _, _, complete = heapq.heappop(self._produces)
            complete(ErrorCode.none)

    def fail_produces(self, code: ErrorCode) -> None:
        """Complete every delayed produce with an error."""
        produces, self._produces = self._produces, []
        for _, _, complete in produces:
            complete(code)

    def watch(self, wake: Wake) -> None:
        """Call `wake` at every change of the high watermark, the log start or the leadership."""
        self._watchers[wake] = None

    def watch_appends(self, wake: Wake) -> None:
        """Call `wake` at every append, and when the leadership ends."""
        self._append_watchers[wake] = None

    def unwatch(self, wake: Wake) -> None:
        """Stop waking a fetch."""
        self._watchers.pop(wake, None)
        self._append_watchers.pop(wake, None)

    def wake_watchers(self) -> None:
        for wake in tuple(self._watchers):
            wake()

    def wake_append_watchers(self) -> None:
        for wake in tuple(self._append_watchers):
            wake()


def completion() -> tuple[asyncio.Future[None], CompleteProduce]:
    """Return a future, and the function that completes it: with None, or with a KafkaError."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def complete(code: ErrorCode) -> None:
        if future.done():
            return
        if code:
            future.set_exception(KafkaError(code))
        else:
            future.set_result(None)

    return future, complete
