"""Doing something again and again beside a link: pauses after success, growing ones after failure.

A failure is logged when it begins, not at every attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from local_cluster.wire.errors import KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.context import LinkContext

logger = logging.getLogger(__name__)


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
        """`work` may raise KafkaError; `what_failed` begins the line that says so."""
        self.failure: str | None = None
        """Why the last round did not end."""
        self._context = context
        self._work = work
        self._what_failed = what_failed
        self._pause_ms = pause_ms

    async def run(self) -> None:
        context = self._context
        back_off = Backoff(
            context.limits.back_off_ms_min, context.limits.back_off_ms_max, context.random
        )
        while True:
            try:
                await self._work()
            except KafkaError as error:
                if self.failure is None:
                    logger.warning(
                        "link %s: %s: %s", context.settings.name, self._what_failed, error
                    )
                self.failure = str(error)
                await context.clock.sleep(back_off.next_ms())
                continue
            self.failure = None
            back_off.reset()
            await context.clock.sleep(self._pause_ms)
