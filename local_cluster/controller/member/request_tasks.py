"""Work of requests that continues when the caller is cancelled or times out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from local_cluster.controller.zk.coordination import CoordinationUnavailable
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class RequestTasks:
    """The tasks of one broker's requests, until it stops."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, Result], timeout_ms: int) -> Result:
        """Run the work and wait for it; it continues after a timeout or cancellation.

        Raises KafkaError: from the work, or request_timed_out.
        """
        task = self.start(work)
        try:
            async with asyncio.timeout(max(timeout_ms, 1) / 1000):
                return await asyncio.shield(task)
        except TimeoutError:
            raise KafkaError(ErrorCode.request_timed_out, "the request continues") from None

    async def run_write(self, write: Coroutine[Any, Any, Result], timeout_ms: int) -> Result:
        """Run a write to ZooKeeper and wait for it. Raises KafkaError."""
        try:
            return await self.run(write, timeout_ms)
        except CoordinationUnavailable as error:
            raise KafkaError(
                ErrorCode.request_timed_out, f"ZooKeeper did not answer: {error}"
            ) from error

    def start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Start the work; log an unexpected failure."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        # These two are for the caller, if it still waits.
        if error is not None and not isinstance(error, KafkaError | CoordinationUnavailable):
            log.error("a request failed", exc_info=error)

    async def cancel(self) -> None:
        """Cancel all work."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
