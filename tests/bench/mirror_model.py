"""What the bench of the mirror measures: sides, figures, sizes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tests.bench.model import (
    CPU_CORE,
    CPU_PER_GB,
    FIGURES,
    MB_PER_SECOND,
    MEMORY_MB,
    OURS,
    OURS_PLAIN,
    Figure,
    Row,
    Side,
)
from tests.bench.table import Comparison

MM2: Final[Side] = "mm2"
MM2_TUNED: Final[Side] = "mm2 tuned"
OURS_ON_OURS: Final[Side] = "ours on ours"
SIDES: Final = (MM2, MM2_TUNED, OURS, OURS_PLAIN, OURS_ON_OURS)
"""In their order of measuring: MirrorMaker 2 as it comes and tuned, and our mirror compiled and in
plain Python, between the same two Kafka brokers; then our mirror between our own brokers."""

FIRST_RECORD_SECONDS: Final = "first_record_seconds"
RECORDS_PER_SECOND: Final = "records_per_second"
ADDED_P50_MS: Final = "added_p50_ms"
ADDED_P99_MS: Final = "added_p99_ms"

MIRROR_FIGURES: Final[Mapping[str, Figure]] = {
    FIRST_RECORD_SECONDS: Figure("first record after, s"),
    CPU_PER_GB: Figure("mirror CPU-s per compressed GB"),
    MB_PER_SECOND: Figure("compressed MB/s", True, 1),
    RECORDS_PER_SECOND: Figure("records/s", True, 0),
    ADDED_P50_MS: Figure("added, p50, ms", digits=1),
    ADDED_P99_MS: Figure("added, p99, ms", digits=1),
    CPU_CORE: Figure("mirror CPU, % of a core", digits=1),
    MEMORY_MB: FIGURES[MEMORY_MB],
}

MIRRORS: Final = Comparison(
    figures=MIRROR_FIGURES,
    before={MM2: "MM2", MM2_TUNED: "MM2 tuned", OURS: "ours"},
    behind={OURS_ON_OURS: "ours on ours", OURS_PLAIN: "ours, plain Python"},
    rival=MM2_TUNED,
    rival_title="tuned",
    ratio_digits=3,
)

MEASURED_ONCE: Final = (MM2, OURS_PLAIN)
"""Sides that nothing is judged by; MirrorMaker 2 as it comes is slow."""

Batches = Literal["256k", "16k", "single"]
BATCH_KINDS: Final[tuple[Batches, ...]] = ("256k", "16k", "single")


def sides_of(row: Row) -> list[Side]:
    """Whom a row is measured with, in that order."""
    return [side for side in SIDES if side not in row.left_out]


@dataclass(frozen=True, slots=True)
class MirrorScale:
    """How much is done; the full run's sizes, or tiny ones that try the harness."""

    megabytes: Mapping[Batches, int]
    """Compressed size of the topic that is caught up with."""
    warm_up_share: float
    """Rates count after this share of the topic was copied,"""
    warm_up_seconds: float
    """or after so long from the first record on, whichever is earlier."""
    measure_seconds_max: float
    """A side that is slower is measured for so long."""
    latency_warm_up_seconds: float
    latency_seconds: float
    idle_topics: int
    idle_partitions: int
    """Of each of the idle topics."""
    idle_settle_seconds: float
    idle_seconds: float
    repeats: int
    """Of the sides that ours is judged by; MEASURED_ONCE are not."""


FULL: Final = MirrorScale(
    megabytes={"256k": 1_500, "16k": 800, "single": 600},
    warm_up_share=0.4,
    warm_up_seconds=20.0,
    measure_seconds_max=30.0,
    latency_warm_up_seconds=20.0,
    latency_seconds=15.0,
    idle_topics=100,
    idle_partitions=100,
    idle_settle_seconds=60.0,  # the audit rests for half a minute after its first verdicts
    idle_seconds=15.0,
    repeats=3,
)
QUICK: Final = MirrorScale(
    megabytes={"256k": 4, "16k": 2, "single": 1},
    warm_up_share=0.4,
    warm_up_seconds=1.0,
    measure_seconds_max=5.0,
    latency_warm_up_seconds=1.0,
    latency_seconds=1.0,
    idle_topics=2,
    idle_partitions=5,
    idle_settle_seconds=0.5,
    idle_seconds=0.5,
    repeats=1,
)
