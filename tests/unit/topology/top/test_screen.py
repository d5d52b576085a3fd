"""The live screen, driven by textual's pilot without a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from textual.widgets import DataTable, Static

from tests.unit.topology.top.test_view import BEFORE, NOW
from topology.problems import DeployError
from topology.top.screen import TopScreen
from topology.top.view import Snapshot


async def test_the_screen_shows_rates_from_the_second_look_on() -> None:
    looks: Iterator[Snapshot] = iter([BEFORE, NOW])
    screen = TopScreen(lambda: next(looks), interval_s=3_600)
    async with screen.run_test() as pilot:
        await screen.workers.wait_for_complete()
        await pilot.pause()
        brokers = screen.query_one("#brokers", DataTable)
        assert brokers.row_count == 2
        assert brokers.get_row_at(0)[2] == "-"
        screen.take_and_show()
        await screen.workers.wait_for_complete()
        await pilot.pause()
        assert brokers.get_row_at(0)[2] == "50%"
        assert "degraded" in str(screen.query_one("#headline", Static).render())


async def test_pause_keeps_the_rows_and_q_ends() -> None:
    looks: list[None] = []

    def take() -> Snapshot:
        looks.append(None)
        return NOW

    screen = TopScreen(take, interval_s=3_600)
    async with screen.run_test() as pilot:
        await screen.workers.wait_for_complete()
        await pilot.press("p")
        screen.take_and_show()
        await screen.workers.wait_for_complete()
        assert len(looks) == 1
        await pilot.press("q")
    assert screen.return_code == 0


async def test_an_error_is_said_and_the_screen_goes_on() -> None:
    def take() -> Snapshot:
        raise DeployError("nothing was deployed in /x")

    screen = TopScreen(take, interval_s=3_600)
    async with screen.run_test() as pilot:
        await screen.workers.wait_for_complete()
        await pilot.pause()
        assert "nothing was deployed" in str(screen.query_one("#headline", Static).render())
