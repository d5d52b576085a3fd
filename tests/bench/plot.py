"""The ratios of a bench as a picture: one line per figure, before and after. Pure.

The axis is logarithmic; 1 is the rival. A point lies left of 1 where ours is better, whichever
way the figure counts, so a rate is drawn as rival through ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import log2
from typing import Final

from tests.bench.table import Comparison, Line

BETTER: Final = "#1a7f5a"
WORSE: Final = "#c2410c"
LINE_PX: Final = 18
LABEL_PX: Final = 520
AXIS_PX: Final = 420
TOP_PX: Final = 56
EDGE_PX: Final = 24
SPAN_MAX: Final = 64.0
"""Ratios beyond this, or below its inverse, are drawn at the edge."""
AXIS_TICKS: Final = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 16.0, 64.0)


@dataclass(frozen=True, slots=True)
class Point:
    """One figure: `cost` and `before` are below 1 where ours is better than the rival."""

    label: str
    cost: float
    before: float | None


def ratios_of(lines: Sequence[Line]) -> dict[str, float]:
    """Return ours through the rival's by `row figure`, as it is committed."""
    return {
        key_of(line): round(line.ratio, 3)
        for line in lines
        if line.ratio is not None and line.ratio > 0
    }


def key_of(line: Line) -> str:
    """Return the name of a line in the file of committed ratios."""
    return f"{line.row} {line.figure}"


def points_of(
    lines: Sequence[Line], before: Mapping[str, float], comparison: Comparison
) -> Iterator[Point]:
    """Yield the lines that have a ratio, in the order of the table."""
    for line in lines:
        if line.ratio is None or line.ratio <= 0:
            continue
        figure = comparison.figures[line.figure]
        earlier = before.get(key_of(line))
        yield Point(
            f"{line.title}: {figure.title}",
            _cost(line.ratio, figure.higher_is_better),
            None if not earlier else _cost(earlier, figure.higher_is_better),
        )


def _cost(ratio: float, higher_is_better: bool) -> float:
    return 1 / ratio if higher_is_better else ratio


def svg(title: str, rival: str, points: Sequence[Point]) -> str:
    """Return the picture: a filled point for this run, a ring for the run before."""
    height = TOP_PX + LINE_PX * len(points) + EDGE_PX
    width = LABEL_PX + AXIS_PX + EDGE_PX
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="8" y="18" font-size="14" font-weight="bold">{escape(title)}</text>',
        f'<text x="8" y="36" fill="#555">left of 1: better than {escape(rival)}; '
        "point: this run, ring: the run before</text>",
        *(_tick(tick, height) for tick in AXIS_TICKS),
    ]
    for number, point in enumerate(points):
        parts += _drawn(point, TOP_PX + LINE_PX * number + LINE_PX // 2)
    return "\n".join([*parts, "</svg>", ""])


def _x(cost: float) -> float:
    bounded = min(max(cost, 1 / SPAN_MAX), SPAN_MAX)
    return LABEL_PX + AXIS_PX * (log2(bounded) / log2(SPAN_MAX) + 1) / 2


def _tick(cost: float, height: int) -> str:
    x = _x(cost)
    told = f"{cost:g}" if cost >= 1 else f"1/{1 / cost:g}"
    colour = "#555" if cost == 1 else "#ddd"
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP_PX - 6}" y2="{height - EDGE_PX}" '
        f'stroke="{colour}"/><text x="{x:.1f}" y="{TOP_PX - 10}" text-anchor="middle" '
        f'fill="#555">{told}</text>'
    )


def _drawn(point: Point, y: int) -> Iterator[str]:
    colour = BETTER if point.cost <= 1 else WORSE
    x = _x(point.cost)
    yield f'<text x="8" y="{y + 4}">{escape(point.label[:88])}</text>'
    if point.before is not None:
        earlier = _x(point.before)
        yield f'<line x1="{earlier:.1f}" x2="{x:.1f}" y1="{y}" y2="{y}" stroke="#999"/>'
        yield f'<circle cx="{earlier:.1f}" cy="{y}" r="4" fill="white" stroke="#666"/>'
    yield f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="{colour}"/>'
