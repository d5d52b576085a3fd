"""Work of a link that repeats: a fixed pause after success, a backoff after failure.

A failure is logged when it begins, not at every attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from local_cluster.wire.errors import KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.context import LinkContext

log = logging.getLogger(__name__)


class PeriodicTask:
    """One piece of work of a link; `run` until cancelled."""

    def __init__(
        self,
        context: LinkContext,
        work: Callable[[], Awaitable[None]],
        *,
        what_failed: str,
        pause_ms: int,
    ) -> None:
        """`work` may raise KafkaError; `what_failed` begins the log line about it."""
        self.failure: str | None = None
        """The error of the last round; None if it succeeded."""
        self._context = context
        self._work = work
        self._what_failed = what_failed
        self._pause_ms = pause_ms

    async def run(self) -> None:
        context = self._context
        backoff = Backoff(
            context.limits.back_off_ms_min, context.limits.back_off_ms_max, context.random
        )
        while True:
            try:
                await self._work()
            except KafkaError as error:
                if self.failure is None:
                    log.warning("link %s: %s: %s", context.settings.name, self._what_failed, error)
                self.failure = str(error)
                await context.clock.sleep(backoff.next_ms())
                continue
            self.failure = None
            backoff.reset()
            await context.clock.sleep(self._pause_ms)
