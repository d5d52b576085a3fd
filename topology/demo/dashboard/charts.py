"""Lines over time as SVG. Pure; all text is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 720
HEIGHT: Final = 240
LEFT: Final = 64
RIGHT: Final = 12
TOP: Final = 12
BOTTOM: Final = 28
"""Pixels."""
TICKS: Final = 4
"""Steps of the vertical axis, about."""
COLORS: Final = ("#2563eb", "#d97706", "#059669", "#7c3aed", "#dc2626", "#475569")

Points = Sequence[tuple[float, float | None]]
"""(seconds, value); None ends a line, and the next value begins another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a chart."""

    name: str
    points: Points
    color: str
    is_dashed: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """A time that is shaded."""

    name: str
    begin_seconds: float
    end_seconds: float


def line_chart(title: str, unit: str, lines: Sequence[Line], bands: Sequence[Band] = ()) -> str:
    """Return a figure with a chart and its legend."""
    times = [seconds for line in lines for seconds, _ in line.points]
    values = [value for line in lines for _, value in line.points if value is not None]
    last_seconds = max(times, default=0.0) or 1.0
    step = _step(max(values, default=0.0))
    top = max(step, -(-max(values, default=0.0) // step) * step)

    def x(seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(seconds / last_seconds, 1.0)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    shapes = [
        f'<rect x="{x(band.begin_seconds):.1f}" y="{TOP}" height="{HEIGHT - TOP - BOTTOM}" '
        f'width="{x(band.end_seconds) - x(band.begin_seconds):.1f}" class="band">'
        f"<title>{escape(band.name)}</title></rect>"
        for band in bands
    ]
    for number in range(round(top / step) + 1):
        value = number * step
        shapes.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" '
            f'class="grid"/><text x="{LEFT - 6}" y="{y(value) + 4:.1f}" class="end">'
            f"{number_text(value)}</text>"
        )
    for share in (0.0, 0.5, 1.0):
        shapes.append(
            f'<text x="{x(share * last_seconds):.1f}" y="{HEIGHT - 8}" '
            f'class="{"start" if not share else "end" if share == 1.0 else "middle"}">'
            f"{share * last_seconds:.0f} s</text>"
        )
    for line in lines:
        dashes = ' stroke-dasharray="5 4"' if line.is_dashed else ""
        for part in _unbroken(line.points):
            path = " ".join(f"{x(seconds):.1f},{y(value):.1f}" for seconds, value in part)
            shapes.append(
                f'<polyline points="{path}" fill="none" stroke="{escape(line.color)}" '
                f'stroke-width="2"{dashes}/>'
            )
    legend = " ".join(
        f'<span><i style="background:{escape(line.color)}"></i>{escape(line.name)}</span>'
        for line in lines
    )
    return (
        f"<figure><figcaption>{escape(title)} <small>{escape(unit)}</small></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f'{"".join(shapes)}</svg><div class="legend">{legend}</div></figure>'
    )


def colors_of(names: Sequence[str]) -> Mapping[str, str]:
    """Return a color for each name."""
    return {name: COLORS[index % len(COLORS)] for index, name in enumerate(names)}


def number_text(value: float) -> str:
    """Return a number with separators, and with decimals only where it has some."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _step(largest: float) -> float:
    """Return a step of 1, 2 or 5 times a power of ten, so that about TICKS steps reach a value."""
    step = 1.0
    while largest / step > TICKS:
        for factor in (2.0, 2.5, 2.0):
            step *= factor
            if largest / step <= TICKS:
                break
    return step


def _unbroken(points: Points) -> Iterator[list[tuple[float, float]]]:
    part: list[tuple[float, float]] = []
    for seconds, value in points:
        if value is None:
            if part:
                yield part
            part = []
        else:
            part.append((seconds, value))
    if part:
        yield part
