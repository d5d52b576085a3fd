"""Work that requests begin, and that goes on when whoever asked is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from local_cluster.controller.zk.coordination import CoordinationUnavailable
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class RequestWork:
    """Of one broker, until it stops."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def finish(self, work: Coroutine[Any, Any, Result], timeout_ms: int) -> Result:
        """Wait for the work; it goes on when the caller's time or connection ends.

        Raises KafkaError: what the work raises, or request_timed_out.
        """
        task = self.own(work)
        try:
            async with asyncio.timeout(max(timeout_ms, 1) / 1000):
                return await asyncio.shield(task)
        except TimeoutError:
            raise KafkaError(ErrorCode.request_timed_out, "the request goes on") from None

    async def finish_write(self, write: Coroutine[Any, Any, Result], timeout_ms: int) -> Result:
        """Wait for a write to ZooKeeper. Raises KafkaError."""
        try:
            return await self.finish(write, timeout_ms)
        except CoordinationUnavailable as error:
            raise KafkaError(
                ErrorCode.request_timed_out, f"ZooKeeper did not answer: {error}"
            ) from error

    def own(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Begin the work, and see to it that it is heard of where it fails."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        # Those two are for whoever asked, if that one still waits.
        if error is not None and not isinstance(error, KafkaError | CoordinationUnavailable):
            log.error("work for a request failed", exc_info=error)

    async def cancel(self) -> None:
        """Give up what is under way."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
