"""The page as HTML, without any outside resource. Pure; all text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from topology.demo.dashboard.charts import Band, Line, colors_of, line_chart, number_text
from topology.demo.dashboard.samples import DatacenterSample, Sample, behind_seconds
from topology.status.completeness import time_text

REFRESH_MS: Final = 1_000
FRAGMENT_PATH: Final = "/fragment"
STRICT: Final = "all (strict)"
FAST: Final = "without late ones (fast)"
_STRICT_COLOR: Final = "#111827"
_FAST_COLOR: Final = "#9ca3af"

STYLE: Final = """
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:760px;padding:16px;color:#111827}
h1{font-size:22px;margin:0} h2{font-size:17px;margin:28px 0 6px} p{margin:6px 0}
figure{margin:18px 0} figcaption{font-weight:600} small{color:#6b7280;font-weight:400}
svg{width:100%;height:auto;background:#f9fafb} .grid{stroke:#e5e7eb} .band{fill:#fee2e2}
svg text{font-size:11px;fill:#6b7280} .end{text-anchor:end} .middle{text-anchor:middle}
.legend span{margin-right:14px} .legend i{display:inline-block;width:10px;height:10px}
.legend i{margin-right:5px} table{border-collapse:collapse;width:100%;font-size:13px}
th,td{border-bottom:1px solid #e5e7eb;padding:3px 8px;text-align:left} td.n,th.n{text-align:right}
.good{color:#047857;font-weight:600} .bad{color:#b91c1c;font-weight:600}
"""
SCRIPT: Final = f"""
async function refresh() {{
  try {{
    const answer = await fetch("{FRAGMENT_PATH}", {{cache: "no-store"}});
    if (answer.ok) document.querySelector("main").innerHTML = await answer.text();
  }} catch (error) {{
    document.querySelector("#state").textContent = "The demo has ended.";
    return;
  }}
  setTimeout(refresh, {REFRESH_MS});
}}
setTimeout(refresh, {REFRESH_MS});
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table below the charts."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | None]]
    """Numbers are aligned to the right, and None is a dash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that a page shows."""

    deployment: str
    stage: str
    """What the demo does."""
    samples: Sequence[Sample]
    bands: Sequence[Band] = ()
    tables: Sequence[Table] = ()
    verdict: str | None = None
    """The last line of the audit."""
    is_good: bool = False


def live_page(view: View) -> str:
    """Return the page that asks for its content again and again."""
    return _page(view, f'<p id="state"></p><script>{SCRIPT}</script>')


def final_page(view: View) -> str:
    """Return the page of a run that has ended: it needs no server."""
    return _page(view, "")


def fragment(view: View) -> str:
    """Return the content of the page."""
    verdict = ""
    if view.verdict is not None:
        verdict = f'<p class="{"good" if view.is_good else "bad"}">{escape(view.verdict)}</p>'
    return "".join(
        [
            f"<h1>{escape(view.deployment)}</h1><p>{escape(view.stage)}</p>{verdict}",
            *_charts(view),
            _html_table(_newest(view.samples)),
            *map(_html_table, view.tables),
        ]
    )


def _page(view: View, end: str) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width"/>'
        f"<title>{escape(view.deployment)}</title><style>{STYLE}</style></head>"
        f"<body><main>{fragment(view)}</main>{end}</body></html>\n"
    )


def _charts(view: View) -> list[str]:
    samples = view.samples
    names = sorted({name for sample in samples for name in sample.datacenters})
    colors = colors_of(names)

    def lines(
        value: Callable[[DatacenterSample, Sample], float | None], what: str = "", *, dashed: bool
    ) -> Iterable[Line]:
        for name in names:
            points = [
                (each.at_seconds, value(each.datacenters[name], each))
                for each in samples
                if name in each.datacenters
            ]
            yield Line(name=f"{name}{what}", points=points, color=colors[name], is_dashed=dashed)

    overall = {
        STRICT: (
            _STRICT_COLOR,
            [(s.at_seconds, behind_seconds(s.now_ms, s.strict_ms)) for s in samples],
        ),
        FAST: (_FAST_COLOR, [(s.at_seconds, behind_seconds(s.now_ms, s.fast_ms)) for s in samples]),
    }
    return [
        line_chart(
            "Flights by datacenter",
            "acknowledged (dashed) and counted by the stream",
            [
                *lines(lambda each, _: each.produced, " acknowledged", dashed=True),
                *lines(lambda each, _: each.rows, dashed=False),
            ],
            view.bands,
        ),
        line_chart(
            "Lag of the stream",
            "records",
            [*lines(lambda each, _: each.lag_records, dashed=False)],
            view.bands,
        ),
        line_chart(
            "How far the time of completeness is behind now",
            "seconds",
            [
                *lines(
                    lambda each, sample: behind_seconds(sample.now_ms, each.complete_through_ms),
                    dashed=False,
                ),
                *(
                    Line(name=name, points=points, color=color, is_dashed=True)
                    for name, (color, points) in overall.items()
                ),
            ],
            view.bands,
        ),
    ]


def _newest(samples: Sequence[Sample]) -> Table:
    newest: Mapping[str, DatacenterSample] = samples[-1].datacenters if samples else {}
    return Table(
        title="Now, by datacenter",
        columns=(
            *("datacenter", "acknowledged", "mirrored", "rows"),
            *("lag, records", "lag, s", "complete through"),
        ),
        rows=[
            (
                name,
                each.produced,
                each.mirrored,
                each.rows,
                each.lag_records,
                each.lag_seconds,
                time_text(each.complete_through_ms),
            )
            for name, each in sorted(newest.items())
        ],
    )


def _html_table(table: Table) -> str:
    numeric = [
        any(isinstance(row[at], int | float) for row in table.rows)
        for at in range(len(table.columns))
    ]

    def cells(tag: str, texts: Iterable[str]) -> str:
        return "".join(
            f'<{tag} class="n">{escape(text)}</{tag}>'
            if is_number
            else f"<{tag}>{escape(text)}</{tag}>"
            for text, is_number in zip(texts, numeric, strict=True)
        )

    body = "".join(f"<tr>{cells('td', map(_cell, row))}</tr>" for row in table.rows)
    return (
        f"<h2>{escape(table.title)}</h2><table><thead><tr>{cells('th', table.columns)}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _cell(value: str | float | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else number_text(round(value, 1))
