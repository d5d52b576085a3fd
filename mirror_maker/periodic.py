"""Work that a link repeats: a pause after each success, a backoff after each failure.

A failure is logged when it begins; at DEBUG, so is every further attempt that fails.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from local_cluster.wire.errors import KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.ports import Clock

log = logging.getLogger(__name__)

Pause = Callable[[], Awaitable[None]]


def pause_of(clock: Clock, duration_ms: int) -> Pause:
    """Return a pause of fixed length."""
    return lambda: clock.sleep(duration_ms)


class PeriodicTask:
    """One piece of work; `run` until cancelled."""

    def __init__(
        self,
        work: Callable[[], Awaitable[None]],
        *,
        link: str,
        what_failed: str,
        pause: Pause,
        backoff: Backoff,
        on_failure: Callable[[], Awaitable[None]] | None = None,
        survives: type[Exception] = KafkaError,
        expected: tuple[type[Exception], ...] = (KafkaError,),
    ) -> None:
        """`what_failed` begins the log line of a failure.

        `on_failure` runs after each failure, before the backoff. Exceptions of the type `survives`
        count as failures, all others end the work. Those that are not `expected` are logged with
        their traceback.
        """
        self.failure: str | None = None
        """Why the last attempt failed; None after a success."""
        self._work = work
        self._link = link
        self._what_failed = what_failed
        self._pause = pause
        self._backoff = backoff
        self._on_failure = on_failure
        self._survives = survives
        self._expected = expected

    async def run(self) -> None:
        while True:
            try:
                await self._work()
            except self._survives as error:
                await self._failed(error)
                await self._backoff.wait()
                continue
            if self.failure is not None:
                log.info("link %s: succeeded again, after: %s", self._link, self._what_failed)
            self.failure = None
            self._backoff.reset()
            await self._pause()

    async def _failed(self, error: Exception) -> None:
        if self.failure is None:
            is_expected = isinstance(error, self._expected)
            log.warning(
                "link %s: %s: %s", self._link, self._what_failed, error, exc_info=not is_expected
            )
        else:
            log.debug("link %s: %s again: %s", self._link, self._what_failed, error)
        self.failure = str(error) or repr(error)
        if self._on_failure is not None:
            await self._on_failure()
