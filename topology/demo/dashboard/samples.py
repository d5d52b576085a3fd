"""What is known at a moment, and how long a flight takes to become a row. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

SAMPLES_MAX: Final = 2_400
"""Samples that a run keeps: twenty minutes of two a second. Then the oldest are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatacenterSample:
    """The figures of one datacenter."""

    produced: int = 0
    """Records that its cluster acknowledged."""
    mirrored: int = 0
    """Records on the aggregate."""
    rows: int = 0
    """Rows that the stream has counted."""
    lag_records: int | None = None
    """Records that the stream has not read; None before its first batch."""
    lag_seconds: float | None = None
    complete_through_ms: int | None = None
    """Every record of before this time is on the aggregate; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """All figures at a moment."""

    at_seconds: float
    """Since the demo's start."""
    now_ms: int
    """The same moment, as epoch milliseconds."""
    datacenters: Mapping[str, DatacenterSample]
    strict_ms: int | None = None
    """All datacenters are complete through this time."""
    fast_ms: int | None = None
    """The same without late datacenters."""
    missing: tuple[str, ...] = ()
    """Late datacenters."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class History:
    """The samples of a run; the newest SAMPLES_MAX of them."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)

    def add(self, sample: Sample) -> None:
        self._samples.append(sample)

    @property
    def samples(self) -> list[Sample]:
        return list(self._samples)


def row_delays_seconds(
    samples: Sequence[Sample], datacenter: str, since_seconds: float
) -> list[float]:
    """Return how long after their acknowledgement flights were counted as rows.

    One figure per sample in which the stream counted more rows, of flights that were acknowledged
    since a time. It compares the two curves, so it is as exact as the samples are dense.
    """
    found: list[float] = []
    times = [sample.at_seconds for sample in samples]
    produced = [_of(sample, datacenter).produced for sample in samples]
    rows = 0
    for sample in samples:
        counted = _of(sample, datacenter).rows
        if counted > rows:
            first = bisect_left(produced, counted)
            if first < len(times) and times[first] > since_seconds:
                found.append(max(0.0, sample.at_seconds - times[first]))
        rows = max(rows, counted)
    return found


def behind_seconds(now_ms: int, through_ms: int | None) -> float | None:
    """Return how far a time is behind now; None if it is unknown."""
    return None if through_ms is None else max(0.0, (now_ms - through_ms) / 1000)


def _of(sample: Sample, datacenter: str) -> DatacenterSample:
    return sample.datacenters.get(datacenter, DatacenterSample())
