"""The audit's work in pieces."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from mirror_maker.audit.cpu_budget import (
    PIECE_ITEMS_MAX,
    PIECE_NS_MAX,
    REST_PER_CPU,
    CpuBudget,
    CpuMeter,
)


class Times:
    """A clock whose sleeps are recorded, and CPU time that pieces spend."""

    def __init__(self) -> None:
        self.cpu_ns = 0
        self.events: list[str] = []

    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return 0

    async def sleep(self, duration_ms: int) -> None:
        self.events.append(f"rest {duration_ms}")


def pieces(times: Times, *costs_ns: int) -> Generator[None, None, int]:
    for cost_ns in costs_ns:
        times.cpu_ns += cost_ns
        times.events.append("piece")
        yield
    return len(costs_ns)


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def budget() -> CpuBudget:
    return CpuBudget(0.5)


@pytest.fixture
def meter(times: Times, budget: CpuBudget) -> CpuMeter:
    return CpuMeter(budget, lambda: times.cpu_ns, times)


async def test_it_rests_after_each_piece_in_proportion(meter: CpuMeter, times: Times) -> None:
    assert await meter.in_pieces(pieces(times, 1_000_000, 3_000_000)) == 2
    one, three = 1 + REST_PER_CPU, 1 + 3 * REST_PER_CPU
    assert times.events == ["piece", f"rest {one}", "piece", f"rest {three}"]


async def test_small_pieces_share_a_rest(meter: CpuMeter, times: Times) -> None:
    for _ in range(4):  # of four partitions
        await meter.in_pieces(pieces(times, PIECE_NS_MAX // 4))
    assert times.events == ["piece"] * 4 + ["rest 2"]


async def test_it_rests_between_some_hundreds_of_items(meter: CpuMeter, times: Times) -> None:
    done: list[int] = []

    def do(item: int) -> None:
        times.cpu_ns += 2_500
        done.append(item)
        if item % PIECE_ITEMS_MAX == 0:
            times.events.append("piece")

    await meter.for_each(range(3 * PIECE_ITEMS_MAX), do)
    assert done == list(range(3 * PIECE_ITEMS_MAX))
    assert times.events == ["piece", "rest 2"] * 3


async def test_all_pieces_and_what_was_fetched_are_counted(
    meter: CpuMeter, times: Times, budget: CpuBudget
) -> None:
    await meter.in_pieces(pieces(times, 1_000_000, 1_000_000), fetched_bytes=10)
    assert budget.share_used(0) * 60_000 == pytest.approx(2.0, abs=0.01)


async def test_an_error_of_the_work_is_passed_on_and_its_time_counted(
    meter: CpuMeter, times: Times, budget: CpuBudget
) -> None:
    def failing() -> Generator[None, None, None]:
        times.cpu_ns += 1_000_000
        if times.cpu_ns:
            raise ValueError("not a receipt")
        yield

    with pytest.raises(ValueError, match="not a receipt"):
        await meter.in_pieces(failing())
    assert budget.share_used(0) > 0
