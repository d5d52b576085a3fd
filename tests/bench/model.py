"""What a bench measures, by name: figures, works, what is wanted of them. Pure.

A work is done by one system at a time and gives figures; repeats are kept as samples, and what is
judged is their median.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from tests.bench.bench import Bench
    from tests.bench.systems import System

Side = Literal[
    "kafka",
    "kafka fsync",
    "ours",
    "ours fsync",
    "ours plain",
    "before",
    "mm2",
    "mm2 tuned",
    "ours on ours",
]
"""Who does the work; the last three are of the bench of the mirror, see `mirror_model.py`."""
KAFKA: Final[Side] = "kafka"
KAFKA_FSYNC: Final[Side] = "kafka fsync"
"""Kafka with log.flush.interval.messages=1: the promise of `flush: fsync`."""
OURS: Final[Side] = "ours"
OURS_FSYNC: Final[Side] = "ours fsync"
OURS_PLAIN: Final[Side] = "ours plain"
"""Ours with page_cache, in plain Python instead of compiled modules."""
BEFORE: Final[Side] = "before"
"""Ours at an earlier commit."""

NO_FSYNC: Final[Mapping[Side, str]] = {KAFKA_FSYNC: "", OURS_FSYNC: ""}
"""What a row leaves out that writes nothing."""

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Figure:
    """One kind of number: its title for people and which way is better."""

    title: str
    higher_is_better: bool = False
    digits: int = 2


CPU_PER_GB: Final = "cpu_seconds_per_gb"
CPU_PER_REQUESTS: Final = "cpu_seconds_per_100k_requests"
CPU_MS_PER_REQUEST: Final = "cpu_ms_per_request"
CPU_CORE: Final = "cpu_percent_of_a_core"
CPU_PRODUCE: Final = "cpu_us_per_produce"
CPU_FETCH: Final = "cpu_us_per_fetch"
CPU_COMMIT: Final = "cpu_us_per_commit"
MB_PER_SECOND: Final = "mb_per_second"
READ_MB_PER_SECOND: Final = "reader_mb_per_second"
REQUESTS_PER_SECOND: Final = "requests_per_second"
MEAN_MS: Final = "mean_ms"
P50_MS: Final = "p50_ms"
P99_MS: Final = "p99_ms"
P999_MS: Final = "p999_ms"
MAX_MS: Final = "max_ms"
READY_SECONDS: Final = "ready_seconds"
MEMORY_MB: Final = "memory_pss_mb"
MEMORY_ALL_MB: Final = "memory_pss_mb_with_zookeeper"
GAP_MS: Final = "longest_gap_ms"
ANSWERED_SECONDS: Final = "controller_answers_seconds"
LED_SECONDS: Final = "all_led_seconds"
CPU_SECONDS: Final = "cpu_seconds"

FIGURES: Final[Mapping[str, Figure]] = {
    CPU_PER_GB: Figure("broker CPU-s/GB"),
    CPU_PER_REQUESTS: Figure("broker CPU-s/100k requests"),
    CPU_MS_PER_REQUEST: Figure("broker CPU-ms/request", digits=3),
    CPU_CORE: Figure("broker CPU, % of a core"),
    CPU_PRODUCE: Figure("broker CPU-us/produce", digits=1),
    CPU_FETCH: Figure("broker CPU-us/fetch", digits=1),
    CPU_COMMIT: Figure("broker CPU-us/commit", digits=1),
    MB_PER_SECOND: Figure("MB/s", True, 0),
    READ_MB_PER_SECOND: Figure("the reader's MB/s", True, 0),
    REQUESTS_PER_SECOND: Figure("requests/s", True, 0),
    MEAN_MS: Figure("mean, ms"),
    P50_MS: Figure("p50, ms"),
    P99_MS: Figure("p99, ms"),
    P999_MS: Figure("p99.9, ms"),
    MAX_MS: Figure("max, ms"),
    READY_SECONDS: Figure("ready after, s"),
    MEMORY_MB: Figure("memory (PSS), MB", digits=0),
    MEMORY_ALL_MB: Figure("memory with ZooKeeper (PSS), MB", digits=0),
    GAP_MS: Figure("longest gap, ms", digits=0),
    ANSWERED_SECONDS: Figure("a controller answers after, s"),
    LED_SECONDS: Figure("all partitions are led after, s"),
    CPU_SECONDS: Figure("CPU-s until then"),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A bound; a figure whose higher values are better has it as a lower bound.

    `ratio`: ours through the rival's. `absolute`: ours alone. `share`: ours with fsync through ours
    without. `fsync`: ours with fsync through Kafka's with fsync.
    """

    limit: float
    of: Literal["ratio", "absolute", "share", "fsync"] = "ratio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table, and what is wanted of its figures."""

    name: str
    title: str
    wanted: Mapping[str, Sequence[Wanted]] = field(default_factory=dict)
    left_out: Mapping[Side, str] = field(default_factory=dict)
    """Sides that are not measured, and what the table says in their place."""
    curve: str = ""
    """The curve that this is a point of, or "" for a row of the table."""
    point: int = 0


Measure = Callable[["Bench", "System"], Awaitable[Figures]]
"""(what rows share, the system that does the work) -> what it gave"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Row):
    """A row with what is done to a running system."""

    measure: Measure
    repeats: int | None = None
    """None: as many as the run was told."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one repeat of a row gave on one side."""

    row: str
    side: Side
    figures: Figures


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done; the full run's sizes, or tiny ones that try the harness."""

    megabytes: int
    """Bytes of a produce row, in MB."""
    filled_megabytes: int
    """Size of the topic that the fetch rows read."""
    read_megabytes: int
    """What a raw fetch row reads, over and over the filled topic."""
    single_requests: int
    latency_records: int
    curve_requests: int
    partition_points: tuple[int, ...]
    connection_points: tuple[int, ...]
    group_points: tuple[int, ...]
    transactions: int
    metadata_partitions: int
    metadata_requests: int
    commit_seconds: float
    idle_seconds: float
    warm_up_seconds: float
    dirty_megabytes: int
    cold_megabytes: int
    repeats: int
    starts: int
    controller_partitions: int
    with_plain: bool = False
    """Whether our broker runs in plain Python as well, for a column of its own."""


FULL: Final = Scale(
    megabytes=600,
    filled_megabytes=1_500,
    read_megabytes=6_000,
    single_requests=60_000,
    latency_records=10_000,
    curve_requests=20_000,
    partition_points=(10, 100, 1_000, 10_000),
    connection_points=(10, 100, 1_000, 5_000),
    group_points=(10, 100, 2_000),
    transactions=300,
    metadata_partitions=2_000,
    metadata_requests=4_000,
    commit_seconds=8.0,
    idle_seconds=8.0,
    warm_up_seconds=40.0,
    dirty_megabytes=1_000,
    cold_megabytes=3_000,
    repeats=3,
    starts=3,
    controller_partitions=10_000,
)
QUICK: Final = Scale(
    megabytes=10,
    filled_megabytes=10,
    read_megabytes=20,
    single_requests=1_000,
    latency_records=200,
    curve_requests=500,
    partition_points=(5, 20),
    connection_points=(5, 20),
    group_points=(5, 20),
    transactions=10,
    metadata_partitions=20,
    metadata_requests=10,
    commit_seconds=0.5,
    idle_seconds=0.5,
    warm_up_seconds=0.5,
    dirty_megabytes=10,
    cold_megabytes=20,
    repeats=1,
    starts=1,
    controller_partitions=50,
)
