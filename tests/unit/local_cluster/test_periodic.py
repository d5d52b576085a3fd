"""When periodic work runs again, and which of its failures are logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from local_cluster.periodic import Periodic, RunAgainError
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.virtual_time import run_virtually


class Work:
    """Records when it runs, and raises the errors that it is given, one per run."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)
        self.times_ms: list[int] = []

    async def __call__(self) -> None:
        self.times_ms.append(round(asyncio.get_running_loop().time() * 1000))
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error


def run(
    work: Work,
    *,
    interval_ms: int = 1_000,
    until_ms: int,
    gather_ms: int = 0,
    runs_at_start: bool = False,
    during: Callable[[Periodic], Awaitable[None]] | None = None,
) -> list[int]:
    """When the work ran, in milliseconds after the start."""

    async def scenario() -> list[int]:
        start_ms = round(asyncio.get_running_loop().time() * 1000)
        periodic = Periodic(
            "the work",
            work,
            interval_ms=interval_ms,
            backoff_ms_min=100,
            backoff_ms_max=300,
            gather_ms=gather_ms,
            runs_at_start=runs_at_start,
        )
        periodic.start()
        if during is not None:
            await during(periodic)
        await asyncio.sleep(until_ms / 1000 - asyncio.get_running_loop().time() + start_ms / 1000)
        await periodic.stop()
        runs = len(work.times_ms)
        await asyncio.sleep(10)
        assert len(work.times_ms) == runs, "it does not run after its stop"
        return [each - start_ms for each in work.times_ms]

    times_ms: list[int] = run_virtually(scenario())
    return times_ms


def test_the_first_run_comes_after_one_interval_unless_it_runs_at_start() -> None:
    assert run(Work(), until_ms=2_500) == [1_000, 2_000]
    assert run(Work(), until_ms=2_500, runs_at_start=True) == [0, 1_000, 2_000]


def test_the_backoff_doubles_up_to_its_maximum_and_ends_with_a_success() -> None:
    errors = [KafkaError(ErrorCode.not_controller)] * 4
    assert run(Work(*errors), until_ms=3_000) == [1_000, 1_100, 1_300, 1_600, 1_900, 2_900]


def test_a_trigger_runs_the_work_once_after_the_gathering_time() -> None:
    async def trigger(periodic: Periodic) -> None:
        await asyncio.sleep(0.5)
        periodic.trigger()
        await asyncio.sleep(0.001)
        periodic.trigger()

    assert run(Work(), until_ms=1_200, gather_ms=5, during=trigger) == [505]


def test_a_trigger_does_not_shorten_the_backoff() -> None:
    async def trigger(periodic: Periodic) -> None:
        await asyncio.sleep(1.01)
        periodic.trigger()

    assert run(Work(RunAgainError()), until_ms=1_500, during=trigger) == [1_000, 1_100]


def test_a_trigger_during_a_run_causes_another_run() -> None:
    class Slow(Work):
        async def __call__(self) -> None:
            await super().__call__()
            await asyncio.sleep(0.2)

    async def trigger(periodic: Periodic) -> None:
        await asyncio.sleep(1.1)
        periodic.trigger()

    assert run(Slow(), until_ms=2_000, during=trigger) == [1_000, 1_200]


def test_a_failure_is_logged_when_it_is_new_and_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    away = KafkaError(ErrorCode.not_controller, "it moved")
    defect = ZeroDivisionError("nobody expected that")
    run(Work(away, away, defect, defect, RunAgainError()), until_ms=5_000)
    logged = [each for each in caplog.records if each.name == "local_cluster.periodic"]
    assert [(each.levelname, each.exc_info is not None) for each in logged] == [
        ("WARNING", False),
        ("ERROR", True),
        ("INFO", False),
    ]
    assert logged[0].getMessage().startswith("the work failed and is retried in 100 ms:")
    assert logged[2].getMessage() == "the work: success after 5 failed attempts"


def test_another_interval_holds_from_a_run_that_comes_soon() -> None:
    async def change(periodic: Periodic) -> None:
        periodic.set_interval(1_000)
        await asyncio.sleep(0.5)
        periodic.set_interval(200)

    assert run(Work(), until_ms=1_000, during=change) == [500, 700, 900]
