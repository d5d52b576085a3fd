"""An asyncio loop whose time is virtual: waiting costs nothing, and every run is repeatable."""

from __future__ import annotations

import asyncio
import itertools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

SECONDS_MAX = 3_600.0
"""A simulation that wants to go on longer than this is stuck."""
CPU_NS_PER_PIECE = 300_000
"""What `busy_cpu` counts between two looks."""


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting for the timeout, moves the loop's time to its end."""

    loop: VirtualTimeLoop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("deadlock: every task waits and no timer runs")
        if timeout > 0:
            self.loop.before_jump()
            self.loop.now += timeout
            if self.loop.now > SECONDS_MAX:
                raise RuntimeError(f"the simulation is still busy after {SECONDS_MAX} s")
        return super().select(0) if self.loop.may_use_threads else []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Starts at second 0."""

    may_use_threads = True
    """Whether anything from outside may wake the loop; asking for it takes time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.before_jump: Callable[[], None] = lambda: None
        """Called between two moments, when everything of the first has happened."""
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


class ThreadlessLoop(VirtualTimeLoop):
    """For a program that starts no thread."""

    may_use_threads = False


def run_virtually(
    main: Coroutine[Any, Any, Any],
    *,
    loop_factory: Callable[[], VirtualTimeLoop] = VirtualTimeLoop,
) -> Any:
    """As asyncio.run, in virtual time."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(main)


def busy_cpu() -> Callable[[], int]:
    """Return a count of CPU time that each look finds higher: who rests after work does so."""
    counter = itertools.count(0, CPU_NS_PER_PIECE)
    return lambda: next(counter)
