"""The most telling ratios of the broker's bench, beside those that are committed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tests.bench.model import (
    CPU_MS_PER_REQUEST,
    CPU_PER_GB,
    CPU_PER_REQUESTS,
    FIGURES,
    KAFKA,
    KAFKA_FSYNC,
    MB_PER_SECOND,
    OURS,
    OURS_FSYNC,
    P50_MS,
    REQUESTS_PER_SECOND,
    Sample,
    Scale,
    Side,
)
from tests.bench.table import repeats_of

WORSE_RATIO_MAX: Final = 4 / 3
"""A ratio may be worse than the committed one by this factor."""

SCALE: Final = Scale(
    megabytes=300,
    filled_megabytes=400,
    read_megabytes=2_000,
    single_requests=20_000,
    latency_records=3_000,
    curve_requests=0,
    partition_points=(),
    connection_points=(),
    group_points=(),
    transactions=200,
    metadata_partitions=2_000,
    metadata_requests=2_000,
    commit_seconds=3.0,
    idle_seconds=0.0,
    warm_up_seconds=8.0,
    dirty_megabytes=300,
    cold_megabytes=0,
    repeats=2,
    starts=0,
    controller_partitions=0,
)
"""Sizes for a run of less than three minutes on two cores."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ours through Kafka's of one figure of one row."""

    row: str
    figure: str
    ours: Side = OURS
    rival: Side = KAFKA

    @property
    def name(self) -> str:
        """The key in the file of committed ratios."""
        return f"{self.row} {self.figure} {self.ours}"


RATIOS: Final = (
    Ratio("raw-produce-256k", CPU_PER_GB),
    Ratio("raw-produce-16k", CPU_PER_GB),
    Ratio("raw-produce-16k", MB_PER_SECOND),
    Ratio("raw-single-64", CPU_PER_REQUESTS),
    Ratio("raw-single-64", REQUESTS_PER_SECOND),
    Ratio("raw-single-64", CPU_PER_REQUESTS, OURS_FSYNC, KAFKA_FSYNC),
    Ratio("raw-fetch-1m", CPU_PER_GB),
    Ratio("raw-latency", P50_MS),
    Ratio("transactions-1", CPU_PER_REQUESTS),
    Ratio("raw-metadata", CPU_MS_PER_REQUEST),
)


def sides_of_rows() -> dict[str, set[Side]]:
    """Return the sides that the ratios of each row need, in the order of RATIOS."""
    found: dict[str, set[Side]] = {}
    for ratio in RATIOS:
        found.setdefault(ratio.row, set()).update((ratio.ours, ratio.rival))
    return found


@dataclass(frozen=True, slots=True)
class Judged:
    """A ratio that was measured, and the committed one."""

    ratio: Ratio
    measured: float
    committed: float | None

    @property
    def is_worse(self) -> bool:
        """Whether it is worse than the committed one by more than WORSE_RATIO_MAX."""
        if self.committed is None:
            return False
        if FIGURES[self.ratio.figure].higher_is_better:
            return self.measured * WORSE_RATIO_MAX < self.committed
        return self.measured > self.committed * WORSE_RATIO_MAX


def judge(samples: Sequence[Sample], committed: Mapping[str, float]) -> Iterator[Judged]:
    """Yield the ratios in the order of RATIOS. Raises KeyError for one that was not measured."""
    for ratio in RATIOS:
        ours = _median(samples, ratio.row, ratio.ours, ratio.figure)
        rival = _median(samples, ratio.row, ratio.rival, ratio.figure)
        yield Judged(ratio, ours / rival, committed.get(ratio.name))


def _median(samples: Sequence[Sample], row: str, side: Side, figure: str) -> float:
    values = repeats_of(row, samples).get(side, {}).get(figure)
    if not values:
        raise KeyError(f"{row} of {side} has no {figure}")
    return median(values)


def markdown(judged: Sequence[Judged]) -> str:
    """Return the table of ratios, ours through Kafka's."""
    lines = ["| row | figure | side | committed | measured | |", "|---|---|---|---:|---:|---|"]
    for each in judged:
        ratio, committed = each.ratio, each.committed
        shown = "" if committed is None else f"{committed:.2f}"
        verdict = "**worse**" if each.is_worse else ""
        lines.append(
            f"| {ratio.row} | {FIGURES[ratio.figure].title} | {ratio.ours} : {ratio.rival} | "
            f"{shown} | {each.measured:.2f} | {verdict} |"
        )
    return "\n".join(lines)
