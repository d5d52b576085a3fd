"""Lookups of many callers in one request: a lookup during a request goes with the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from local_cluster.wire.errors import KafkaError

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class _Round(Generic[Question, Answer]):
    """The lookups of one request."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.answers: Sequence[Answer] | None = None
        self.error: KafkaError | None = None
        self.is_led = False
        """Whether one of the callers sends the request for all."""
        self.changed = asyncio.Event()


class RequestBatcher(Generic[Question, Answer]):
    """Guarantee: a lookup is answered by a request that was sent after the call.

    One request is in flight at a time. If it fails with KafkaError, it fails for all its callers. A
    cancelled caller takes nothing from the others.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[Question]], Awaitable[Sequence[Answer]]],
        *,
        count_max: int,
    ) -> None:
        """`ask` answers at most `count_max` lookups, in their order."""
        self._ask = ask
        self._count_max = count_max
        self._open: _Round[Question, Answer] = _Round()
        self._turn = asyncio.Lock()

    async def ask(self, question: Question) -> Answer:
        """Return the answer to a lookup. Raises KafkaError."""
        joined = self._open
        index = len(joined.questions)
        joined.questions.append(question)
        if len(joined.questions) >= self._count_max:
            self._open = _Round()
        while joined.answers is None and joined.error is None:
            if joined.is_led:
                await joined.changed.wait()
            else:
                await self._lead(joined)
        if joined.error is not None:
            raise KafkaError(joined.error.code, joined.error.message) from joined.error
        assert joined.answers is not None
        return joined.answers[index]

    async def _lead(self, joined: _Round[Question, Answer]) -> None:
        joined.is_led = True
        try:
            async with self._turn:
                await asyncio.sleep(0)  # callers woken by the same response add theirs
                if joined is self._open:
                    self._open = _Round()
                joined.answers = await self._ask(joined.questions)
        except KafkaError as error:
            joined.error = error
        finally:
            # After a cancellation another caller leads.
            joined.is_led = False
            changed, joined.changed = joined.changed, asyncio.Event()
            changed.set()
