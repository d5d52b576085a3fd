"""The page: well-formed, escaped, and without anything from outside."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.demo.dashboard.charts import TOP, Band, Line, line_chart
from topology.demo.dashboard.document import Table, View, final_page, fragment, live_page
from topology.demo.dashboard.samples import DatacenterSample, Sample

EVIL = """<script>alert("1")</script>&'"""


def view(text: str = "jfk", value: float = 3.0) -> View:
    samples = [
        Sample(
            at_seconds=second,
            now_ms=1_000 * second,
            datacenters={
                text: DatacenterSample(
                    produced=second, rows=second // 2, complete_through_ms=500 * second
                )
            },
            strict_ms=None if second < 2 else 1_000,
        )
        for second in range(4)
    ]
    return View(
        deployment=text,
        stage=text,
        samples=samples,
        bands=[Band(text, 1.0, 2.0)],
        tables=[Table(title=text, columns=(text, "count"), rows=[(text, value), (None, None)])],
        verdict=text,
    )


class Outside(HTMLParser):
    """Collects what a page would load, and the tags."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "srcset")]


def test_the_final_page_is_whole_and_needs_nothing_else() -> None:
    page = final_page(view(EVIL))
    found = Outside()
    found.feed(page)
    assert found.loads == []
    assert "script" not in found.tags
    assert not re.search(r"https?://|url\(|@import", page)
    assert EVIL not in page
    ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))


def test_the_live_page_loads_from_itself_only() -> None:
    page = live_page(view(EVIL))
    found = Outside()
    found.feed(page)
    assert found.loads == []
    assert found.tags.count("script") == 1
    assert not re.search(r"https?://", page)


@given(st.text(alphabet=st.characters(min_codepoint=32, exclude_categories=("Cs", "Cn", "Co"))))
def test_any_name_is_escaped(text: str) -> None:
    ElementTree.fromstring(f"<main>{fragment(view(text))}</main>")


def test_tables_show_numbers_for_people() -> None:
    html = fragment(view(value=1234567.25))
    assert '<td class="n">1,234,567.2</td>' in html
    assert '<td class="n">-</td>' in html


def test_a_page_without_samples_has_its_charts() -> None:
    empty = View(deployment="demo", stage="deploying", samples=[])
    assert fragment(empty).count("<svg") == 3


def polylines(chart: str) -> list[list[tuple[float, float]]]:
    return [
        [(float(x), float(y)) for x, y in (pair.split(",") for pair in points.split())]
        for points in re.findall(r'points="([^"]*)"', chart)
    ]


def test_an_unknown_value_breaks_a_line() -> None:
    line = Line(name="a", points=[(0, 1), (1, 2), (2, None), (3, 4)], color="red")
    assert [len(part) for part in polylines(line_chart("t", "u", [line]))] == [2, 1]


@pytest.mark.parametrize("largest", [0.0, 0.4, 1, 3, 7, 99, 120_835, 3e9])
def test_every_value_is_inside_of_the_chart(largest: float) -> None:
    line = Line(name="a", points=[(0, 0), (10, largest)], color="red")
    chart = line_chart("t", "u", [line])
    ((_, low), (_, high)) = polylines(chart)[0]
    assert TOP <= high <= low
    assert chart.count('class="grid"') <= 7
