"""`Deferred`: responses that come later."""

from __future__ import annotations

import pytest

from local_cluster.handlers.deferred import Deferred


async def test_callbacks_run_before_and_after_the_resolution() -> None:
    received: list[object] = []
    early, late = Deferred(), Deferred()
    early.then(received.append, received.append)
    early.resolve(b"1")
    late.resolve(b"2")
    late.then(received.append, received.append)
    assert received == [b"1", b"2"]


async def test_it_can_be_awaited() -> None:
    deferred = Deferred()
    deferred.resolve(b"response")
    assert await deferred == b"response"


def boom() -> None:
    raise ValueError("boom")


async def test_an_exception_of_a_step_fails_the_response() -> None:
    received: list[object] = []
    early, late = Deferred(), Deferred()
    early.then(received.append, received.append)
    early.guard(boom)
    assert isinstance(received[0], ValueError)
    late.guard(boom)
    with pytest.raises(ValueError, match="boom"):
        await late
