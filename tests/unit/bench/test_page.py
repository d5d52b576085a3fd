"""The page of all benches keeps the ratios that were measured before."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tests.bench import page
from tests.bench.bench import failure_text
from tests.bench.model import CPU_PER_GB, KAFKA, MB_PER_SECOND, OURS, Row, Sample
from tests.bench.plot import Point, points_of, svg
from tests.bench.report import Report
from tests.bench.table import KAFKA_AND_OURS, lines_of

ROW = Row(name="produce", title="Produce <1 kB>")


def report(ours_cpu: float, ours_rate: float) -> Report:
    samples = [
        Sample("produce", KAFKA, {CPU_PER_GB: 2.0, MB_PER_SECOND: 100.0}),
        Sample("produce", OURS, {CPU_PER_GB: ours_cpu, MB_PER_SECOND: ours_rate}),
    ]
    return Report("Broker", ["bench"], {"cores": "2"}, {}, [ROW], samples)


def test_what_was_measured_last_becomes_before() -> None:
    first = page.with_result({}, "broker", report(1.0, 200.0), "2026-11-01")
    second = page.with_result(first, "broker", report(0.5, 400.0), "2026-11-02")
    assert first["broker"]["before"] == {}
    assert second["broker"]["before"] == first["broker"]["ratios"]
    assert second["broker"]["ratios"] == {
        f"produce {CPU_PER_GB}": 0.25,
        f"produce {MB_PER_SECOND}": 4.0,
    }


def test_a_higher_rate_and_a_lower_cost_lie_on_the_same_side() -> None:
    found = report(0.5, 400.0)
    lines = list(lines_of(found.rows, found.samples))
    before = {f"produce {MB_PER_SECOND}": 0.5}
    points = {point.label: point for point in points_of(lines, before, KAFKA_AND_OURS)}
    assert points["Produce <1 kB>: broker CPU-s/GB"] == Point(
        "Produce <1 kB>: broker CPU-s/GB", 0.25, None
    )
    assert points["Produce <1 kB>: MB/s"] == Point("Produce <1 kB>: MB/s", 0.25, 2.0)


@pytest.mark.parametrize("cost", [0.0001, 1.0, 10_000.0])
def test_the_picture_is_valid_xml_and_keeps_every_point_inside(cost: float) -> None:
    root = ElementTree.fromstring(svg("a < b", "Kafka", [Point("x & y", cost, 1.0)]))
    width = float(root.attrib["width"])
    circles = root.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 2
    assert all(0 < float(circle.attrib["cx"]) < width for circle in circles)


def test_the_page_has_each_bench_in_the_order_of_the_map() -> None:
    results = page.with_result({}, "mirror", report(1.0, 1.0), "2026-11-01")
    results = page.with_result(results, "broker", report(1.0, 1.0), "2026-11-01")
    told = page.markdown(results, "--repeats 2")
    assert told.index(page.picture_name("broker")) < told.index(page.picture_name("mirror"))
    assert "`--repeats 2`" in told


def test_a_failed_row_is_named_with_the_last_line_of_its_error() -> None:
    error = RuntimeError("read: Traceback\n  File 'a.py'\nValueError: none\n")
    assert failure_text("near", "ours", error) == "near of ours: RuntimeError: ValueError: none"
    assert failure_text("idle", "ours", TimeoutError()) == "idle of ours: TimeoutError: "
