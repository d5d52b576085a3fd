"""How far a stream is behind, per datacenter, in records and seconds. Pure.

Seconds come from when the driver saw the ends of the partitions, never from the timestamps of
records. A stream is N seconds behind if it has read all that the driver saw N seconds ago. N is the
smallest such number. If that was before the first sample, N is a lower bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from local_cluster.client.model import TopicPartition

SAMPLES_MAX: Final = 1_024
"""Samples of the ends that one query keeps. If there are more, every second one is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatacenterLag:
    """How far a stream is behind one datacenter."""

    datacenter: str | None
    """Several names with `+` if their records share a partition."""
    records: int
    """Offsets that are stable and not read."""
    seconds: float
    is_at_least: bool = False
    """Whether `seconds` is only a lower bound."""


class LagHistory:
    """The ends of the partitions of one query over time."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Mapping[TopicPartition, int]]] = deque()

    def add(self, seconds: float, ends: Mapping[TopicPartition, int]) -> None:
        """Note the ends at a time on the driver's clock."""
        self._samples.append((seconds, ends))
        if len(self._samples) > SAMPLES_MAX:
            # The newest sample stays, so the lag of a stream that keeps up stays exact.
            kept = list(self._samples)
            self._samples = deque(kept[:-1:2])
            self._samples.append(kept[-1])

    def lag(
        self,
        position: Mapping[TopicPartition, int],
        datacenters: Mapping[str, str | None],
    ) -> list[DatacenterLag]:
        """Return the lag of a position at the time of the last sample.

        `datacenters` has the name for each topic of the aggregate.
        """
        if not self._samples:
            return []
        now, ends = self._samples[-1]
        by_name: dict[str | None, list[DatacenterLag]] = {}
        for at, offset in position.items():
            records = max(0, ends.get(at, offset) - offset)
            complete = self._complete_through(at, offset)
            name = datacenters.get(at.topic)
            by_name.setdefault(name, []).append(
                DatacenterLag(
                    datacenter=name,
                    records=records,
                    seconds=now - (self._samples[0][0] if complete is None else complete),
                    is_at_least=complete is None,
                )
            )
        return [
            _together(name, lags)
            for name, lags in sorted(by_name.items(), key=lambda entry: entry[0] or "")
        ]

    def _complete_through(self, at: TopicPartition, offset: int) -> float | None:
        """Return when the end of the partition was last seen at or below the offset."""
        for seconds, ends in reversed(self._samples):
            if ends.get(at, 0) <= offset:
                return seconds
        return None


def _together(name: str | None, lags: list[DatacenterLag]) -> DatacenterLag:
    worst = max(lags, key=lambda lag: (lag.seconds, lag.is_at_least))
    return DatacenterLag(
        datacenter=name,
        records=sum(lag.records for lag in lags),
        seconds=worst.seconds,
        is_at_least=worst.is_at_least,
    )
