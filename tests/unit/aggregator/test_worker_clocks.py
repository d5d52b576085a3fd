"""The skew of a worker's clock is never farther from the truth than the stated error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.worker_clocks import clock_skew


@given(st.integers(-(10**9), 10**9), st.integers(0, 2_000), st.integers(0, 2_000))
def test_the_true_skew_lies_within_the_error(
    skew_ms: int, request_ms: int, response_ms: int
) -> None:
    asked_ms = 1_700_000_000_000
    status = {"worker_id": "w", "now_ms": asked_ms + request_ms + skew_ms}
    found = clock_skew(status, asked_ms, asked_ms + request_ms + response_ms)
    assert found is not None
    assert abs(found.skew_ms - skew_ms) <= found.error_ms <= (request_ms + response_ms + 1) // 2


@pytest.mark.parametrize(
    "status", [{"worker_id": "w"}, {"now_ms": 5}, {"worker_id": "w", "now_ms": "5"}]
)
def test_an_older_worker_has_no_clock(status: dict[str, Any]) -> None:
    assert clock_skew(status, 1, 2) is None


def test_a_clock_that_steps_back_meanwhile_measures_nothing() -> None:
    assert clock_skew({"worker_id": "w", "now_ms": 5}, 9, 3) is None
