"""The page of all benches: what each found, its plot, its ratios before and after. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.bench.plot import points_of, ratios_of, svg
from tests.bench.report import Report
from tests.bench.table import lines_of

ORDER: Final = ("broker", "cluster", "controller", "mirror", "mirror-tls")
Results = dict[str, dict[str, Any]]
"""By the bench's name: title, day, ratios, before, markdown."""


def with_result(results: Results, name: str, report: Report, day: str) -> Results:
    """Return the results with this bench's; what was measured last becomes its `before`."""
    lines = list(lines_of(report.rows, report.samples, report.comparison))
    return {
        **results,
        name: {
            "title": report.title,
            "day": day,
            "ratios": ratios_of(lines),
            "before": results.get(name, {}).get("ratios", {}),
            "markdown": report.markdown(),
        },
    }


def picture_name(name: str) -> str:
    """Return the file name of a bench's plot."""
    return f"ratios-{name}.svg"


def picture(result: Mapping[str, Any], report: Report) -> str:
    """Return the plot of a bench as SVG."""
    lines = [
        line
        for line in lines_of(report.rows, report.samples, report.comparison)
        if line.figure in report.comparison.figures
    ]
    points = list(points_of(lines, result["before"], report.comparison))
    return svg(report.title, report.comparison.rival_title, points)


def markdown(results: Results, options: str) -> str:
    """Return the page, the benches in their order."""
    parts = [
        "# Every bench, as measured",
        "`make bench` wrote this page; no line of it is written by hand. "
        "[tests/bench/README.md](../../tests/bench/README.md) describes each row.",
    ]
    if options:
        parts.append(f"Options of the last run: `{options}`.")
    for name in ORDER:
        if name in results:
            result = results[name]
            parts += [
                f"## {result['title']}",
                f"Measured on {result['day']}.",
                f"![Ratios of the {name} bench]({picture_name(name)})",
                result["markdown"],
            ]
    return "\n\n".join(parts) + "\n"
