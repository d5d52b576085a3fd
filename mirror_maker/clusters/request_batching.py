"""Questions of many askers in one request: who asks while one is on its way goes with the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from local_cluster.wire.errors import KafkaError

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class _Round(Generic[Question, Answer]):
    """What goes in one request."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.answers: Sequence[Answer] | None = None
        self.error: KafkaError | None = None
        self.is_led = False
        """Whether one of the askers sends the request for all."""
        self.changed = asyncio.Event()


class RequestBatcher(Generic[Question, Answer]):
    """Guarantee: a question is answered by a request that was sent after it was asked.

    One request at a time. Where it fails with KafkaError it fails for all who are in it; an asker
    that is cancelled meanwhile takes nothing from the others.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[Question]], Awaitable[Sequence[Answer]]],
        *,
        count_max: int,
    ) -> None:
        """`ask` answers at most `count_max` questions, in their order."""
        self._ask = ask
        self._count_max = count_max
        self._open: _Round[Question, Answer] = _Round()
        self._turn = asyncio.Lock()

    async def ask(self, question: Question) -> Answer:
        """Raises KafkaError."""
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
                await asyncio.sleep(0)  # who was woken by the same answer asks in this moment too
                if joined is self._open:
                    self._open = _Round()
                joined.answers = await self._ask(joined.questions)
        except KafkaError as error:
            joined.error = error
        finally:
            # Where it was cancelled another one leads.
            joined.is_led = False
            changed, joined.changed = joined.changed, asyncio.Event()
            changed.set()
