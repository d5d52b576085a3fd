"""Medians, ratios, verdicts, and the tables as Markdown. Pure.

A figure that misses its bound by less than the repeats differ among themselves is called "even":
the bound may or may not be reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal

from tests.bench.model import (
    CPU_COMMIT,
    CPU_FETCH,
    CPU_PRODUCE,
    FIGURES,
    KAFKA,
    KAFKA_FSYNC,
    OURS,
    OURS_FSYNC,
    OURS_PLAIN,
    Figure,
    Row,
    Sample,
    Side,
    Wanted,
)

Verdict = Literal["yes", "no", "even", "not measured"]

FLAT_RATIO_MAX: Final = 1.2
"""A curve is flat where its last point costs at most so many times its first."""
CURVE_REQUESTS: Final = {CPU_PRODUCE: "produce", CPU_FETCH: "fetch", CPU_COMMIT: "offset commit"}
"""What the points of a curve cost: the figure, and the request that it is about."""
BAR_CHARACTERS_MAX: Final = 30
_WANTED_OF: Final = {
    "ratio": "",
    "absolute": " (ours)",
    "share": " of page cache",
    "fsync": " (fsync of both)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Which sides a table has, and what ours is set against."""

    figures: Mapping[str, Figure]
    """In the order of a row's lines."""
    before: Mapping[Side, str]
    """Columns before the ratio, and their titles."""
    behind: Mapping[Side, str]
    """Columns at the end."""
    rival: Side
    rival_title: str
    ratio_digits: int = 2


KAFKA_AND_OURS: Final = Comparison(
    figures=FIGURES,
    before={KAFKA: "Kafka", OURS: "ours"},
    behind={
        KAFKA_FSYNC: "Kafka, fsync",
        OURS_FSYNC: "ours, fsync",
        OURS_PLAIN: "ours, plain Python",
    },
    rival=KAFKA,
    rival_title="Kafka",
)


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of one row."""

    row: str
    title: str
    figure: str
    values: Mapping[Side, float]
    """Medians."""
    left_out: Mapping[Side, str]
    ratio: float | None
    """Ours through the rival's."""
    wanted: Sequence[Wanted]
    verdicts: Sequence[Verdict]
    """As many."""


def lines_of(
    rows: Iterable[Row], samples: Sequence[Sample], comparison: Comparison = KAFKA_AND_OURS
) -> Iterator[Line]:
    """What the table shows, row by row; rows without samples are left out."""
    for row in rows:
        repeats = repeats_of(row.name, samples)
        for figure in comparison.figures:
            values = {
                side: median(each[figure]) for side, each in repeats.items() if figure in each
            }
            if not values:
                continue
            wanted = row.wanted.get(figure, ())
            yield Line(
                row.name,
                row.title,
                figure,
                values,
                row.left_out,
                _quotient(values, OURS, comparison.rival),
                wanted,
                [_verdict(each, figure, repeats, comparison) for each in wanted],
            )


def repeats_of(row: str, samples: Iterable[Sample]) -> dict[Side, dict[str, list[float]]]:
    """Return the repeats of a row by side and figure."""
    repeats: dict[Side, dict[str, list[float]]] = {}
    for sample in samples:
        if sample.row == row:
            of_side = repeats.setdefault(sample.side, {})
            for figure, value in sample.figures.items():
                of_side.setdefault(figure, []).append(value)
    return repeats


def _quotient(values: Mapping[Side, float], above: Side, below: Side) -> float | None:
    if above not in values or not values.get(below):
        return None
    return values[above] / values[below]


def _verdict(
    wanted: Wanted,
    figure: str,
    repeats: Mapping[Side, Mapping[str, list[float]]],
    comparison: Comparison,
) -> Verdict:
    above, below = {
        "ratio": (OURS, comparison.rival),
        "absolute": (OURS, None),
        "share": (OURS_FSYNC, OURS),
        "fsync": (OURS_FSYNC, KAFKA_FSYNC),
    }[wanted.of]
    ours = repeats.get(above, {}).get(figure)
    theirs = repeats.get(below, {}).get(figure) if below is not None else [1.0]
    if not ours or not theirs:
        return "not measured"
    higher = comparison.figures[figure].higher_is_better
    reached = median(ours) >= wanted.limit * median(theirs)
    best = max(ours) >= wanted.limit * min(theirs)
    if not higher:
        reached = median(ours) <= wanted.limit * median(theirs)
        best = min(ours) <= wanted.limit * max(theirs)
    return "yes" if reached else "even" if best else "no"


def markdown_table(lines: Iterable[Line], comparison: Comparison = KAFKA_AND_OURS) -> str:
    """A line per figure; the row's title stands at its first figure.

    The column of plain Python is left out if nothing ran on it.
    """
    lines = list(lines)
    before = comparison.before
    behind = {
        side: title
        for side, title in comparison.behind.items()
        if side != OURS_PLAIN or any(side in line.values for line in lines)
    }
    titles = (
        *("work", "figure", *before.values()),
        *(f"{before[OURS]} : {comparison.rival_title}", "wanted", "reached", *behind.values()),
    )
    ruler = ("---", "---", *("---:" for _ in before), "---:", "---", "---")
    out = [_joined(titles), f"|{'|'.join((*ruler, *('---:' for _ in behind)))}|"]
    titled = ""
    for line in lines:
        title = "" if line.row == titled else line.title
        titled = line.row
        figure = comparison.figures[line.figure]
        ratio = "" if line.ratio is None else f"{line.ratio:.{comparison.ratio_digits}f}"
        cells = (
            *(title, figure.title, *(_number(line, side, figure) for side in before)),
            *(ratio, _wanted(line, figure)),
            ", ".join("**no**" if each == "no" else each for each in line.verdicts),
            *(_number(line, side, figure) for side in behind),
        )
        out.append(_joined(cells))
    return "\n".join(out)


def _joined(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(line: Line, side: Side, figure: Figure) -> str:
    value = line.values.get(side)
    return line.left_out.get(side, "") if value is None else f"{value:,.{figure.digits}f}"


def _wanted(line: Line, figure: Figure) -> str:
    sign = ">=" if figure.higher_is_better else "<="
    return ", ".join(f"{sign} {each.limit:g}{_WANTED_OF[each.of]}" for each in line.wanted)


def markdown_curve(curve: str, rows: Sequence[Row], samples: Sequence[Sample]) -> str:
    """Cost per request over the points of a curve, with bars; "" where none was measured."""
    points = {row.point: repeats_of(row.name, samples) for row in rows if row.curve == curve}
    points = {point: repeats for point, repeats in points.items() if repeats}
    if not points:
        return ""
    out = [
        f"| {curve} | request | Kafka, CPU-us | ours, CPU-us | ours : Kafka | Kafka # ours = |",
        "|---:|---|---:|---:|---:|---|",
    ]
    notes: list[str] = []
    for figure, request in CURVE_REQUESTS.items():
        costs = {
            point: {side: median(each[figure]) for side, each in repeats.items() if figure in each}
            for point, repeats in points.items()
            if any(figure in each for each in repeats.values())
        }
        if not costs:
            continue
        most = max(max(each.values()) for each in costs.values())
        for point, each in costs.items():
            kafka, ours = each.get(KAFKA, 0.0), each.get(OURS, 0.0)
            ratio = f"{ours / kafka:.2f}" if kafka else ""
            bars = f"`{_bar('#', kafka, most)}` `{_bar('=', ours, most)}`"
            out.append(f"| {point:,} | {request} | {kafka:.1f} | {ours:.1f} | {ratio} | {bars} |")
        notes += _flatness(request, curve, costs)
    return "\n".join([*out, "", *notes])


def _bar(character: str, value: float, most: float) -> str:
    return character * max(1, round(value / most * BAR_CHARACTERS_MAX))


def _flatness(request: str, curve: str, costs: Mapping[int, Mapping[Side, float]]) -> Iterator[str]:
    """Whether ours costs at the last point what it costs at the first, and Kafka's beside it."""
    first, last = min(costs), max(costs)
    rises = {
        side: costs[last][side] / costs[first][side]
        for side in (KAFKA, OURS)
        if costs[first].get(side) and side in costs[last]
    }
    if OURS in rises:
        said = ", ".join(f"{side} {rise:.2f}" for side, rise in rises.items())
        flat = "yes" if rises[OURS] <= FLAT_RATIO_MAX else "**no**"
        yield (
            f"- {request}, cost at {last:,} {curve} through cost at {first:,}: {said}; "
            f"flat (ours <= {FLAT_RATIO_MAX:g}): {flat}"
        )
