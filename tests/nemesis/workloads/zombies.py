"""Members that are stopped for one to three of their sessions, one at a time, and come back."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from tests.nemesis.workloads.workload import SESSION_MS

REST_SECONDS: Final = (0.5, 2.0)
"""Between two stops, when nobody is stopped: a fault that is held for 9 s has room for one."""
STOP_SESSIONS: Final = (1.0, 3.0)
TICK_SECONDS: Final = 0.05


class Stoppable(Protocol):
    @property
    def is_back(self) -> bool:
        """Whether it has reported, since it was last stopped, that it continues."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class Stop(NamedTuple):
    """`place`: where between the first of those who may be stopped (0) and the last (1)."""

    rest_seconds: float
    place: float
    seconds: float


def draw_stop(randomly: random.Random) -> Stop:
    """Who is stopped next, after how long, and for how long. Pure."""
    return Stop(
        rest_seconds=randomly.uniform(*REST_SECONDS),
        place=randomly.random(),
        seconds=randomly.uniform(*STOP_SESSIONS) * SESSION_MS / 1000,
    )


class Zombies:
    """Stops and continues members while nobody measures the workload's progress.

    An open transaction of a stopped member blocks others, as it must. `Life` measures what the
    cluster needs after a fault, without that wait. So a stop ends as soon as measuring begins, and
    the next one begins when it is over.
    """

    def __init__(
        self,
        members: Sequence[Stoppable],
        randomly: random.Random,
        is_measured: Callable[[], bool],
    ) -> None:
        self.stopped = 0
        """How many stops there were."""
        self._members = members
        self._random = randomly
        self._is_measured = is_measured
        self._whole = 0
        """Of the stops, those that were as long as a session at least."""
        self._is_ending = False
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = asyncio.create_task(self._run())

    async def finish(self) -> None:
        """Let the present stop last as long as it is to; there was one that was whole."""
        assert self._running is not None
        self._is_ending = True
        await self._running

    async def close(self) -> None:
        """End at once; also after a failure."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        while not self._is_over():
            stop = draw_stop(self._random)
            await self._rest(stop.rest_seconds)
            # One that is not back has not noticed yet that it was away.
            possible = [member for member in self._members if member.is_back]
            if possible and not self._is_over():
                await self._stop(possible[int(stop.place * len(possible))], stop.seconds)

    def _is_over(self) -> bool:
        return self._is_ending and self._whole > 0

    async def _rest(self, seconds: float) -> None:
        """For so long nobody has measured."""
        since = time.monotonic()
        while not self._is_over():
            if self._is_measured():
                since = time.monotonic()
            elif time.monotonic() >= since + seconds:
                return
            await asyncio.sleep(TICK_SECONDS)

    async def _stop(self, member: Stoppable, seconds: float) -> None:
        began = time.monotonic()
        member.pause()
        self.stopped += 1
        try:
            while time.monotonic() < began + seconds and not self._is_measured():
                await asyncio.sleep(TICK_SECONDS)
        finally:
            member.resume()
        self._whole += time.monotonic() >= began + SESSION_MS / 1000
