"""The bench of Spark's readers: sides, sizes, figures and its page. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

Reader = Literal["connector", "heliograph"]
Broker = Literal["Kafka", "ours"]
Kind = Literal["json", "avro"]
What = Literal["all", "count", "metadata"]
KINDS: Final[tuple[Kind, ...]] = ("json", "avro")
CODECS: Final = ("none", "lz4", "zstd", "gzip")
LARGE: Final[tuple[tuple[Kind, str], ...]] = (("json", "lz4"), ("avro", "lz4"))
"""Kinds and codecs of the large topics."""
WHATS: Final[Mapping[What, str]] = {
    "all": "every column",
    "count": "`count(*)`",
    "metadata": "partition, offset, timestamp",
}
TRIGGER_SECONDS: Final = 1.0
MIRRORED: Final = "a produce at a source"
DELAY_SECONDS_WANTED: Final = TRIGGER_SECONDS + 0.5
"""From a produce at a source to a row, as p50."""
CURVE_ENDS: Final = (10, 1_000)
"""Fewest and most partitions, between which the cost of a row must stay the same."""
CURVE_RATIO_WANTED: Final = 1.2
CURVE_TITLE: Final = f"CPU per row with {CURVE_ENDS[1]:,} partitions, to that with {CURVE_ENDS[0]}"
FRESHNESS_MEGABYTES: Final = 50.0
FRESHNESS_SECONDS_WANTED: Final = 5.0
"""At that rate."""
CPU_GROUPS: Final = ("brokers", "mirror", "job")


@dataclass(frozen=True, slots=True)
class Side:
    """A reader and the broker that it reads."""

    reader: Reader
    broker: Broker

    def __str__(self) -> str:
        return f"{self.reader} on {self.broker}"


BROKERS: Final[tuple[Broker, ...]] = ("Kafka", "ours")
READERS: Final[tuple[Reader, ...]] = ("connector", "heliograph")
SIDES: Final = tuple(Side(reader, broker) for reader in READERS for broker in BROKERS)
OURS: Final = Side("heliograph", "ours")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkScale:
    """How much is read."""

    records: int = 2_000_000
    """Of each topic but the large ones."""
    large_records: int = 10_000_000
    """Of the topics of JSON and of Avro in lz4."""
    partitions: int = 8
    curve_records: int = 1_000_000
    curve_partitions: tuple[int, ...] = (10, 100, 1_000)
    warm_up_records: int = 500_000
    delay_warm_up_seconds: float = 20.0
    delay_seconds: float = 60.0
    freshness_megabytes: tuple[float, ...] = (5, 20, 50)
    """Rates of values per second, before they are compressed."""
    freshness_seconds: float = 40.0
    repeats: int = 1

    def records_of(self, kind: Kind, codec: str) -> int:
        return self.large_records if (kind, codec) in LARGE else self.records


FULL: Final = SparkScale()
QUICK: Final = SparkScale(
    records=200_000,
    large_records=200_000,
    curve_records=20_000,
    curve_partitions=(10, 50),
    warm_up_records=20_000,
    delay_warm_up_seconds=4.0,
    delay_seconds=6.0,
    freshness_megabytes=(2,),
    freshness_seconds=10.0,
)


@dataclass(frozen=True, slots=True)
class Read:
    """One read: its rows, and what it took of wall time and of the CPU of Spark."""

    rows: int
    seconds: float
    cpu_seconds: float

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds

    @property
    def rows_per_core(self) -> float:
        """Rows per second of CPU."""
        return self.rows / self.cpu_seconds

    @property
    def cpu_seconds_per_million(self) -> float:
        return self.cpu_seconds / self.rows * 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """An Iceberg table while records arrive at a source."""

    wanted_megabytes: float
    megabytes: float
    """Of values that the producer sent per second."""
    delays: Sequence[float]
    """Seconds from a produce at the source until a reader of the table has the records."""
    behind_seconds: float
    """How long the table took for the rest after the last produce."""
    cpu_per_second: Mapping[str, float]
    """CPU-seconds per second, by brokers, mirror and job."""


@dataclass
class Found:
    """Everything that a run measured."""

    reads: dict[str, dict[Side, list[Read]]] = field(default_factory=dict)
    """By the row's name, such as `json lz4 all` or `100 partitions`."""
    delays: dict[Side, list[float]] = field(default_factory=dict)
    """Seconds from a produce until the record's row is in the driver."""
    mirrored_delays: list[float] = field(default_factory=list)
    """The same, from a produce at a source to a row of a stream of the aggregate."""
    freshness: list[Freshness] = field(default_factory=list)

    def add(self, name: str, side: Side, read: Read) -> None:
        self.reads.setdefault(name, {}).setdefault(side, []).append(read)

    def json(self) -> dict[str, Any]:
        """Return every repeat, as JSON values."""
        return {
            "reads": {
                name: {
                    str(side): [[each.rows, each.seconds, each.cpu_seconds] for each in reads]
                    for side, reads in sides.items()
                }
                for name, sides in self.reads.items()
            },
            "delays": {str(side): found for side, found in self.delays.items()},
            "mirrored_delays": self.mirrored_delays,
            "freshness": [asdict(each) for each in self.freshness],
        }


def row_name(kind: Kind, codec: str, what: What) -> str:
    return f"{kind} {codec} {what}"


def curve_name(partitions: int) -> str:
    return f"{partitions:,} partitions"


def median_read(reads: Sequence[Read]) -> Read:
    """Return the read with the median of CPU."""
    return sorted(reads, key=lambda each: each.cpu_seconds)[len(reads) // 2]


def markdown(found: Found) -> str:
    """Return the tables: reads, partitions, delay, and ratios beside what is wanted."""
    parts = []
    for name, sides in found.reads.items():
        middle = {side: median_read(reads) for side, reads in sides.items()}
        parts.append((name, middle))
    lines = [
        *_table("Rows/s", parts, lambda read: f"{read.rows_per_second:,.0f}"),
        *_table("Rows/s and core", parts, lambda read: f"{read.rows_per_core:,.0f}"),
        *_table(
            "CPU-seconds per million rows",
            parts,
            lambda read: f"{read.cpu_seconds_per_million:.2f}",
        ),
        *_curve_table(_curve_ratios(parts)),
        *_delay_table("a produce", found.delays),
        *_delay_table(MIRRORED, {OURS: found.mirrored_delays}),
        *_freshness_table(found.freshness),
        *_ratio_table(parts, found),
    ]
    return "\n".join(lines)


Parts = Sequence[tuple[str, Mapping[Side, Read]]]


def _table(title: str, parts: Parts, figure: Any) -> list[str]:
    header = ["read", *map(str, SIDES)]
    rows = [
        [name, *(figure(middle[side]) if side in middle else "" for side in SIDES)]
        for name, middle in parts
    ]
    return _lines(title, header, rows) if rows else []


def _lines(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        f"## {title}",
        "",
        f"| {' | '.join(header)} |",
        f"|---{'|---:' * (len(header) - 1)}|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]


def _curve_ratios(parts: Parts) -> dict[Side, float]:
    """Return the CPU per row with the most partitions by that with the fewest."""
    of_name = dict(parts)
    few, many = (of_name.get(curve_name(partitions), {}) for partitions in CURVE_ENDS)
    return {
        side: many[side].cpu_seconds_per_million / few[side].cpu_seconds_per_million
        for side in SIDES
        if side in few and side in many
    }


def _curve_table(ratios: Mapping[Side, float]) -> list[str]:
    rows = [[str(side), f"{ratio:.2f}"] for side, ratio in ratios.items()]
    return _lines(CURVE_TITLE, ["side", "ratio"], rows) if rows else []


def _delay_table(what: str, delays: Mapping[Side, Sequence[float]]) -> list[str]:
    rows = [
        [str(side), f"{statistics.median(found):.2f} s", f"{_p99(found):.2f} s", f"{len(found):,}"]
        for side, found in delays.items()
        if found
    ]
    title = f"From {what} to a row, trigger of {TRIGGER_SECONDS:.0f} s"
    return _lines(title, ["side", "p50", "p99", "records"], rows) if rows else []


def _freshness_table(found: Sequence[Freshness]) -> list[str]:
    rows = [
        [
            f"{each.wanted_megabytes:g} MB/s",
            f"{each.megabytes:.1f} MB/s",
            f"{statistics.median(each.delays):.2f} s",
            f"{_p99(each.delays):.2f} s",
            f"{each.behind_seconds:.1f} s",
            *(f"{each.cpu_per_second[name]:.2f}" for name in CPU_GROUPS),
        ]
        for each in found
    ]
    header = ["rate", "sent", "p50", "p99", "rest", *(f"CPU of {name}" for name in CPU_GROUPS)]
    title = f"From a produce at a source to an Iceberg table, trigger of {TRIGGER_SECONDS:.0f} s"
    return _lines(title, header, rows) if rows else []


def _p99(found: Sequence[float]) -> float:
    return sorted(found)[int(len(found) * 0.99)]


def _ratio_table(parts: Parts, found: Found) -> list[str]:
    theirs, on_ours = Side("connector", "Kafka"), Side("connector", "ours")
    rows = []
    for name, middle in parts:
        if theirs in middle and on_ours in middle:
            ratio = middle[on_ours].rows_per_second / middle[theirs].rows_per_second
            rows.append(_ratio(f"{name}: connector on ours, rows/s to Kafka's", ratio, 1.0))
        wanted = 1.5 if name.endswith("all") else 3.0
        if on_ours in middle and OURS in middle and "partitions" not in name:
            ratio = middle[OURS].rows_per_core / middle[on_ours].rows_per_core
            what = f"{name}: heliograph on ours, rows/s and core to the connector's"
            rows.append(_ratio(what, ratio, wanted))
    if (flat := _curve_ratios(parts).get(OURS)) is not None:
        rows.append(_at_most(f"{OURS}: {CURVE_TITLE}", flat, CURVE_RATIO_WANTED))
    if found.mirrored_delays:
        p50 = statistics.median(found.mirrored_delays)
        rows.append(_at_most(f"p50 from {MIRRORED} to a row", p50, DELAY_SECONDS_WANTED, " s"))
    for each in found.freshness:
        if each.wanted_megabytes == FRESHNESS_MEGABYTES:
            what = f"p99 from a produce to an Iceberg table at {FRESHNESS_MEGABYTES:g} MB/s"
            rows.append(_at_most(what, _p99(each.delays), FRESHNESS_SECONDS_WANTED, " s"))
    return _lines("Wanted", ["what", "measured", "wanted", "reached"], rows) if rows else []


def _ratio(what: str, ratio: float, wanted: float) -> list[str]:
    return [what, f"{ratio:.2f}", f">= {wanted}", "yes" if ratio >= wanted else "no"]


def _at_most(what: str, measured: float, wanted: float, unit: str = "") -> list[str]:
    verdict = "yes" if measured <= wanted else "no"
    return [what, f"{measured:.2f}{unit}", f"<= {wanted:g}{unit}", verdict]
