"""Background work of a broker that runs again and again, in a task of its own.

    success    the next run after `interval_ms`, or soon after `trigger`
    failure    the next run after a backoff that doubles up to a maximum

A failure is logged when it is new, and once more when the work succeeds again. An unexpected error
does not end the task: it is logged with its traceback, and the work is retried as after any other.

Not for the data path: fetches, appends and flushes have loops of their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from local_cluster.backoff import FailureBackoff
from local_cluster.wire.errors import KafkaError, PeerError

BACKOFF_MS_MIN: Final = 1_000
BACKOFF_MS_MAX: Final = 60_000
EXPECTED_ERRORS: Final = (OSError, KafkaError, PeerError)
"""Errors of disks and peers, which are logged without a traceback."""

log = logging.getLogger(__name__)


class RunAgainError(Exception):
    """Raised by work that has to run again after the backoff. It is not logged."""


class Periodic:
    """One piece of periodic work. Call `start` and `stop` on the loop."""

    def __init__(
        self,
        name: str,
        work: Callable[[], Awaitable[None]],
        *,
        interval_ms: int,
        backoff_ms_min: int = BACKOFF_MS_MIN,
        backoff_ms_max: int = BACKOFF_MS_MAX,
        gather_ms: int = 0,
        expected_errors: tuple[type[Exception], ...] = EXPECTED_ERRORS,
        runs_at_start: bool = False,
    ) -> None:
        """`name` appears in logs and names the task.

        `gather_ms` is the time between a trigger and its run, in which more triggers gather. The
        first run comes after one interval, unless `runs_at_start` is set.
        """
        self._name = name
        self._work = work
        self._interval_ms = interval_ms
        self._gather_ms = gather_ms
        self._expected_errors = expected_errors
        self._backoff: FailureBackoff[None] = FailureBackoff(backoff_ms_min, backoff_ms_max)
        self._is_due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        if runs_at_start:
            self._is_due.set()

    def start(self) -> None:
        """Start the task."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Cancel the task and wait for its end. Does nothing before `start`."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def set_interval(self, interval_ms: int) -> None:
        """Change the interval. Another one holds from a run that comes soon."""
        if interval_ms != self._interval_ms:
            self._interval_ms = interval_ms
            self._is_due.set()

    def trigger(self) -> None:
        """Run soon, without waiting for the interval. A backoff is not shortened."""
        self._is_due.set()

    async def _run(self) -> None:
        while True:
            await self._wait_until_due()
            # Before the work: a trigger that comes meanwhile causes another run.
            self._is_due.clear()
            delay_ms = await self._attempt()
            if delay_ms:
                await asyncio.sleep(delay_ms / 1000)
                self._is_due.set()

    async def _wait_until_due(self) -> None:
        try:
            async with asyncio.timeout(self._interval_ms / 1000):
                await self._is_due.wait()
                if self._gather_ms:
                    await asyncio.sleep(self._gather_ms / 1000)
        except TimeoutError:
            return

    async def _attempt(self) -> int:
        """Run the work once. Return the backoff in milliseconds, 0 after a success."""
        try:
            await self._work()
        except RunAgainError:
            return self._backoff.failed(None, RunAgainError).delay_ms
        except Exception as error:  # noqa: BLE001 - any error is logged, and the work is retried
            failure = self._backoff.failed(None, _reason(error))
            if failure.is_new:
                self._log_failure(error, failure.delay_ms)
            return failure.delay_ms
        failed_attempts = self._backoff.succeeded(None)
        if failed_attempts:
            log.info("%s: success after %d failed attempts", self._name, failed_attempts)
        return 0

    def _log_failure(self, error: Exception, delay_ms: int) -> None:
        if isinstance(error, self._expected_errors):
            log.warning("%s failed and is retried in %d ms: %s", self._name, delay_ms, error)
        else:
            log.error("%s failed and is retried in %d ms", self._name, delay_ms, exc_info=error)


def _reason(error: Exception) -> tuple[object, ...]:
    return (type(error), error.code) if isinstance(error, KafkaError) else (type(error),)
