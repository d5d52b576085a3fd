"""A response that comes later, without a task: its owner calls `resolve`.

Most requests of a busy broker wait for something (a commit, records). A task, a future and a timer
for each cost more than all the rest of the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator

from local_cluster.wire.fetch.model import RecordsPart
from local_cluster.wire.messages import Fields

PlainBody = Fields | bytes | list[bytes | memoryview | RecordsPart]
"""The body of a response: fields to encode, or encoded already, as bytes or as parts in order."""


class RecordsBody:
    """A body with records, which leaves only while its client may read them.

    Responses leave in order, so one that is ready can wait for another one while rights change.
    """

    __slots__ = ("body", "may_leave")

    def __init__(self, body: PlainBody, may_leave: Callable[[], bool]) -> None:
        self.body = body
        self.may_leave = may_leave


class ThrottledBody:
    """A body whose connection is not read for some time after it was sent."""

    __slots__ = ("body", "throttle_ms")

    def __init__(self, body: PlainBody | RecordsBody | None, throttle_ms: int) -> None:
        """`body` says `throttle_ms` itself. None: the request gets no response."""
        self.body = body
        self.throttle_ms = throttle_ms


Body = PlainBody | RecordsBody | ThrottledBody


class Deferred:
    """A response that is resolved once. All methods are called on the loop."""

    __slots__ = ("_body", "_error", "_failed", "_then", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._body: Body | None = None
        self._error: Exception | None = None
        self._then: Callable[[Body | None], None] | None = None
        self._failed: Callable[[Exception], None] | None = None

    def resolve(self, body: Body | None) -> None:
        """Give the response; None for a request that gets none."""
        assert not self.is_done, "resolved twice"
        self.is_done = True
        self._body = body
        if self._then is not None:
            self._then(body)

    def guard(self, step: Callable[[], None]) -> None:
        """Run a step towards the response. An exception fails the response."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the connection logs it
            self.is_done = True
            self._error = error
            if self._failed is not None:
                self._failed(error)

    def then(
        self, callback: Callable[[Body | None], None], failed: Callable[[Exception], None]
    ) -> None:
        """Call `callback` with the response or `failed` with the exception, perhaps at once."""
        assert self._then is None, "one caller waits"
        self._then = callback
        self._failed = failed
        if self._error is not None:
            failed(self._error)
        elif self.is_done:
            callback(self._body)

    def __await__(self) -> Generator[object, None, Body | None]:
        future: asyncio.Future[Body | None] = asyncio.get_running_loop().create_future()

        def settle(body: Body | None) -> None:
            if not future.done():
                future.set_result(body)

        def fail(error: Exception) -> None:
            if not future.done():
                future.set_exception(error)

        self.then(settle, fail)
        return future.__await__()
