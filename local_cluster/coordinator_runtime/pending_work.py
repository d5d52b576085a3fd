"""What a partition runtime owes by ticket: responses to requests, and mandatory steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic

from local_cluster.coordinator_runtime.loading import S
from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.wire.errors import ErrorCode, KafkaError

Step = Callable[[S, Now], Outcome]
"""One step of a shard that no request asks for: (shard, now) -> outcome."""


class ParkedRequests:
    """Requests whose response waits for a commit or for a later step."""

    def __init__(self) -> None:
        self._futures: dict[int, asyncio.Future[Any]] = {}

    def __len__(self) -> int:
        return len(self._futures)

    def park(self, ticket: int) -> asyncio.Future[Any]:
        """Return the future of a request's response."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._futures[ticket] = future
        return future

    def respond(self, ticket: int, response: object) -> None:
        """Complete a request, unless it has failed before or its caller is gone."""
        future = self._futures.pop(ticket, None)
        if future is not None and not future.done():
            future.set_result(response)

    def fail(self, ticket: int, code: ErrorCode) -> None:
        """Fail a request, unless it is complete or its caller is gone."""
        future = self._futures.pop(ticket, None)
        if future is not None and not future.done():
            future.set_exception(KafkaError(code))
            future.exception()  # avoids asyncio's warning if the caller is gone

    def fail_all(self, code: ErrorCode) -> None:
        """Fail every request."""
        for ticket in tuple(self._futures):
            self.fail(ticket, code)


class MandatorySteps(Generic[S]):
    """Steps that run once on each loaded state, until their records are committed.

    A due step runs before any other step. Otherwise the deletion of a topic's committed offsets,
    run after a commit for the re-created topic, would delete the new offset.
    """

    def __init__(self) -> None:
        self._steps: dict[int, Step[S]] = {}
        self._due: dict[int, None] = {}
        """Tickets of the steps that have not run on the present state, in order."""

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, ticket: int, step: Step[S]) -> None:
        """Add a step that is due."""
        self._steps[ticket] = step
        self._due[ticket] = None

    def drop_oldest(self) -> None:
        """Give up the oldest step."""
        self.remove(next(iter(self._steps)))

    def remove(self, ticket: int) -> None:
        """Forget a step: it is committed, or it failed and would fail on every state."""
        self._steps.pop(ticket, None)
        self._due.pop(ticket, None)

    @property
    def is_due(self) -> bool:
        return bool(self._due)

    def take_due(self) -> tuple[int, Step[S]]:
        """Return the first due step. It is not due again before `make_all_due`."""
        ticket = next(iter(self._due))
        del self._due[ticket]
        return ticket, self._steps[ticket]

    def make_all_due(self) -> None:
        """A new state is loaded: every step that is not committed is due."""
        self._due = dict.fromkeys(self._steps)
