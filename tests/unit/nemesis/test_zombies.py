"""Members are stopped one at a time, for as long as they are to be, while nobody measures."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from tests.nemesis.workloads import zombies
from tests.nemesis.workloads.workload import SESSION_MS
from tests.nemesis.workloads.zombies import REST_SECONDS, Stop, Zombies, draw_stop

MEMBERS = 3


class Members:
    """Which of them are stopped now, and what was done to them."""

    def __init__(self) -> None:
        self.stopped: set[int] = set()
        self.away: set[int] = set()
        """Those that do not come back, for some reason."""
        self.done: list[tuple[str, int]] = []
        self.changed = asyncio.Event()

    def each(self) -> Sequence[Member]:
        return [Member(self, place) for place in range(MEMBERS)]

    async def until_stopped(self, stopped: bool) -> None:
        while bool(self.stopped) is not stopped:
            self.changed.clear()
            await self.changed.wait()


class Member:
    def __init__(self, members: Members, place: int) -> None:
        self._members = members
        self._place = place

    @property
    def is_back(self) -> bool:
        return self._place not in self._members.away

    def pause(self) -> None:
        assert not self._members.stopped, "one at a time"
        self._members.stopped.add(self._place)
        self._note("pause")

    def resume(self) -> None:
        self._members.stopped.remove(self._place)
        self._note("resume")

    def _note(self, what: str) -> None:
        self._members.done.append((what, self._place))
        self._members.changed.set()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions and rests of a moment."""
    monkeypatch.setattr(zombies, "SESSION_MS", 20)
    monkeypatch.setattr(zombies, "STOP_SESSIONS", (1.0, 1.0))
    monkeypatch.setattr(zombies, "REST_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(zombies, "TICK_SECONDS", 0.001)


def test_a_seed_says_who_and_for_how_long() -> None:
    drawn = [draw_stop(random.Random(seed)) for seed in range(200)]
    assert drawn == [draw_stop(random.Random(seed)) for seed in range(200)]
    assert {int(stop.place * MEMBERS) for stop in drawn} == set(range(MEMBERS))
    session = SESSION_MS / 1000
    assert all(session <= stop.seconds <= 3 * session for stop in drawn)
    assert any(stop.seconds > 2 * session for stop in drawn)
    assert all(REST_SECONDS[0] <= stop.rest_seconds <= REST_SECONDS[1] for stop in drawn)


async def test_who_is_stopped_is_continued_before_the_next(quick: None) -> None:
    members = Members()
    running = Zombies(members.each(), random.Random(1), lambda: False)
    running.start()
    while running.stopped < 4:
        await asyncio.sleep(0)
    await running.finish()
    assert members.stopped == set()
    pairs = list(zip(members.done[::2], members.done[1::2], strict=True))
    assert len(pairs) == running.stopped
    assert all(pause == ("pause", who) for pause, (_, who) in pairs)


async def test_who_is_not_back_is_not_stopped(quick: None) -> None:
    members = Members()
    members.away = {0, 2}
    running = Zombies(members.each(), random.Random(1), lambda: False)
    running.start()
    while running.stopped < 4:
        await asyncio.sleep(0)
    await running.finish()
    assert {who for _, who in members.done} == {1}


async def test_a_stop_ends_when_measuring_begins(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zombies, "draw_stop", lambda *_: Stop(0.0, 0, seconds=3_600.0))
    is_measured = False
    members = Members()
    running = Zombies(members.each(), random.Random(1), lambda: is_measured)
    running.start()
    await members.until_stopped(True)
    is_measured = True
    await members.until_stopped(False)
    await running.close()


async def test_nobody_is_stopped_while_it_is_measured(quick: None) -> None:
    looked = asyncio.Event()
    is_measured = True

    def measured() -> bool:
        looked.set()
        return is_measured

    members = Members()
    running = Zombies(members.each(), random.Random(1), measured)
    running.start()
    for _ in range(20):
        looked.clear()
        await looked.wait()
    assert running.stopped == 0
    is_measured = False
    await members.until_stopped(True)
    await running.finish()


async def test_there_is_a_whole_stop_at_least(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = iter([3_600.0, 0.02])
    monkeypatch.setattr(zombies, "draw_stop", lambda *_: Stop(0.0, 0, next(lengths)))
    monkeypatch.setattr(zombies, "SESSION_MS", 3_600_000)
    is_measured = False
    members = Members()
    running = Zombies(members.each(), random.Random(1), lambda: is_measured)
    running.start()
    await members.until_stopped(True)
    is_measured = True
    await members.until_stopped(False)
    is_measured = False
    monkeypatch.setattr(zombies, "SESSION_MS", 20)
    # The one that measuring has ended does not count.
    await running.finish()
    assert running.stopped == 2


async def test_closing_continues_who_is_stopped(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zombies, "draw_stop", lambda *_: Stop(0.0, 0, seconds=3_600.0))
    members = Members()
    running = Zombies(members.each(), random.Random(1), lambda: False)
    running.start()
    await members.until_stopped(True)
    await running.close()
    assert members.done == [("pause", 0), ("resume", 0)]
