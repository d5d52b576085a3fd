"""An answer that comes later, without a task: whoever has it calls `resolve`.

Most requests of a busy broker wait for something (a commit, records), and a task, a future and a
timer for each cost more than all the rest of the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any


class Deferred:
    """Resolved once. Everything is called on the loop."""

    __slots__ = ("_error", "_failed", "_reply", "_then", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._reply: Any = None
        self._error: Exception | None = None
        self._then: Callable[[Any], None] | None = None
        self._failed: Callable[[Exception], None] | None = None

    def resolve(self, reply: Any) -> None:
        """Give the answer (see `registry.Reply`)."""
        assert not self.is_done, "resolved twice"
        self.is_done = True
        self._reply = reply
        if self._then is not None:
            self._then(reply)

    def guard(self, step: Callable[[], None]) -> None:
        """Take a step towards the answer: what it raises goes to whoever waits for the answer."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - told where the request came from
            self.is_done = True
            self._error = error
            if self._failed is not None:
                self._failed(error)

    def then(self, callback: Callable[[Any], None], failed: Callable[[Exception], None]) -> None:
        """Call `callback` with the answer, or `failed` with why there is none; perhaps at once."""
        assert self._then is None, "one caller waits"
        self._then = callback
        self._failed = failed
        if self._error is not None:
            failed(self._error)
        elif self.is_done:
            callback(self._reply)

    def __await__(self) -> Generator[Any, None, Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def settle(reply: Any) -> None:
            if not future.done():
                future.set_result(reply)

        def fail(error: Exception) -> None:
            if not future.done():
                future.set_exception(error)

        self.then(settle, fail)
        return future.__await__()
