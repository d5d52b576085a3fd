"""The status of a worker: a total is unknown if any part is."""

from __future__ import annotations

from mirror_maker.metrics.lag import UNKNOWN_LAG, Lag
from mirror_maker.worker.status import total_lag


def test_a_total_is_unknown_if_any_part_is() -> None:
    assert total_lag([Lag(1, 10, 0.5), Lag(2, 20, 3.0)]) == Lag(3, 30, 3.0)
    assert total_lag([Lag(1, None, 0.5), Lag(2, 20, None)]) == Lag(3, None, None)
    assert total_lag([Lag(1, 1, 1.0), UNKNOWN_LAG]) == UNKNOWN_LAG
    assert total_lag([]) == UNKNOWN_LAG
