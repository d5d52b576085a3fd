"""How far the clocks of mirror workers are from the aggregator's. Pure.

Times of completeness are by the clocks of workers, so times of several workers differ by their
skews. A worker reads its clock between a request and its response. The middle of the two is the
best guess, and half their distance is the largest error.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class ClockSkew(NamedTuple):
    """The clock of one worker, by one request."""

    worker_id: str
    skew_ms: int
    """Its clock minus the aggregator's."""
    error_ms: int
    """The true skew differs by at most this."""


def clock_skew(status: dict[str, Any], asked_ms: int, answered_ms: int) -> ClockSkew | None:
    """Return the skew by a worker's `/status`; None if it has no clock, as in older versions.

    `asked_ms` and `answered_ms` are by the aggregator's clock.
    """
    now_ms, worker_id = status.get("now_ms"), status.get("worker_id")
    if not isinstance(now_ms, int) or worker_id is None or answered_ms < asked_ms:
        return None
    error_ms = (answered_ms - asked_ms + 1) // 2
    return ClockSkew(str(worker_id), now_ms - asked_ms - error_ms, error_ms)
