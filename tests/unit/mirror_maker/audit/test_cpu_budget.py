"""The audit's share of a core, over time."""

from __future__ import annotations

from random import Random

import pytest

from mirror_maker.audit.cpu_budget import CREDIT_MS_MAX, FETCH_NS_PER_BYTE, CpuBudget


@pytest.mark.parametrize("share", [0.01, 0.03, 0.5])
def test_no_more_than_the_share_is_used_over_any_minute(share: float) -> None:
    budget, random = CpuBudget(share), Random(1)
    now_ms, spent = 0, []
    while now_ms < 600_000:
        work_ns = random.randint(10_000, 5_000_000)
        fetched_bytes = random.randint(0, 1_000_000)
        budget.spend(now_ms, work_ns, fetched_bytes)
        spent.append((now_ms, work_ns + fetched_bytes * FETCH_NS_PER_BYTE))
        now_ms += max(budget.delay_ms(now_ms), random.choice((0, 0, 1, 3000)))
    for end_ms in range(60_000, 600_000, 10_000):
        used_ns = sum(ns for at_ms, ns in spent if end_ms - 60_000 <= at_ms < end_ms)
        allowed_ns = (60_000 + CREDIT_MS_MAX) * 1e6 * share + 6_000_000
        assert used_ns <= allowed_ns


@pytest.mark.parametrize("share", [0.01, 0.03, 0.5])
def test_all_of_the_share_is_used_where_there_is_work(share: float) -> None:
    budget = CpuBudget(share)
    now_ms = used_ns = 0
    while now_ms < 600_000:
        budget.spend(now_ms, 1_000_000, 0)
        used_ns += 1_000_000
        now_ms += budget.delay_ms(now_ms)
    assert used_ns == pytest.approx(600_000 * 1e6 * share, rel=0.1)


def test_unused_time_is_credited_for_a_short_while() -> None:
    budget = CpuBudget(0.1)
    budget.spend(0, 0, 0)
    budget.spend(1_000_000, int(CREDIT_MS_MAX * 1e6 * 0.1), 0)
    assert budget.delay_ms(1_000_000) == 0
    budget.spend(1_000_000, 10_000_000, 0)
    assert budget.delay_ms(1_000_000) == pytest.approx(100, abs=2)


def test_the_used_share_covers_the_last_minute() -> None:
    budget = CpuBudget(0.5)
    budget.spend(0, 6_000_000_000, 0)
    assert budget.share_used(30_000) == pytest.approx(0.1)
    assert budget.share_used(61_000) == 0
