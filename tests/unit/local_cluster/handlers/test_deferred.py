"""Answers that come later."""

from __future__ import annotations

import pytest

from local_cluster.handlers.deferred import Deferred


async def test_who_came_before_and_who_came_after_are_told() -> None:
    told: list[object] = []
    early, late = Deferred(), Deferred()
    early.then(told.append, told.append)
    early.resolve(1)
    late.resolve(2)
    late.then(told.append, told.append)
    assert told == [1, 2]


async def test_it_can_be_awaited() -> None:
    deferred = Deferred()
    deferred.resolve("answer")
    assert await deferred == "answer"


def boom() -> None:
    raise ValueError("boom")


async def test_what_a_step_raises_goes_to_who_waits() -> None:
    told: list[object] = []
    early, late = Deferred(), Deferred()
    early.then(told.append, told.append)
    early.guard(boom)
    assert isinstance(told[0], ValueError)
    late.guard(boom)
    with pytest.raises(ValueError, match="boom"):
        await late
