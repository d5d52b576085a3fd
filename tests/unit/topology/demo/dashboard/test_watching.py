"""Samples of what the parts of the demo report."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

from spark_global.streaming.lag import DatacenterLag
from topology.demo.dashboard.charts import Band
from topology.demo.dashboard.document import Table
from topology.demo.dashboard.server import serve_page
from topology.demo.dashboard.watching import BANDS_MAX, Watching

DOCUMENT: dict[str, Any] = {
    "topics": [
        {"topic": "other", "datacenters": [{"source_topic": "other"}]},
        {
            "topic": "flights",
            "strict": {"complete_through_ms": 5},
            "fast": {"complete_through_ms": 9, "missing": [{"datacenter": "lga"}]},
            "datacenters": [
                {"datacenter": "jfk", "source_topic": "flights", "complete_through_ms": 9}
            ],
        },
    ]
}


def test_a_sample_has_what_was_reported() -> None:
    watching = Watching("quickstart", "flights", ["jfk", "lga"], lambda: DOCUMENT)
    watching.set_count("produced", "jfk", 7)
    watching.set_count("rows", "jfk", 4)
    watching.follow_lag(lambda: [DatacenterLag(datacenter="jfk", records=3, seconds=0.5)])
    with watching:
        deadline = time.monotonic() + 10
        while not watching.samples and time.monotonic() < deadline:
            time.sleep(0.01)
    newest = watching.samples[-1]
    jfk, lga = newest.datacenters["jfk"], newest.datacenters["lga"]
    assert (jfk.produced, jfk.mirrored, jfk.rows, jfk.lag_records) == (7, 0, 4, 3)
    assert (jfk.complete_through_ms, lga.complete_through_ms, lga.lag_records) == (9, None, None)
    assert (newest.strict_ms, newest.fast_ms, newest.missing) == (5, 9, ("lga",))


def test_an_aggregator_that_is_silent_leaves_times_unknown() -> None:
    watching = Watching("quickstart", "flights", ["jfk"], lambda: None)
    with watching:
        pass
    assert watching.samples[-1].strict_ms is None


def test_bands_are_bounded() -> None:
    watching = Watching("quickstart", "flights", ["jfk"], lambda: None)
    for _ in range(BANDS_MAX + 1):
        watching.add_band(Band("down", 0, 1))
    assert len(watching.view().bands) == BANDS_MAX


def test_the_page_and_its_data_are_served() -> None:
    watching = Watching("quickstart", "flights", ["jfk"], lambda: DOCUMENT)
    watching.add_table(Table(title="a table", columns=("a",), rows=[("b",)]))
    with watching:
        pass
    with serve_page(watching.view) as address:
        assert address.startswith("http://127.0.0.1:")
        for path, text in (("", "<!DOCTYPE html>"), ("fragment", "a table")):
            with urllib.request.urlopen(address + path, timeout=10) as answer:
                assert text in answer.read().decode()
                assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        with urllib.request.urlopen(address + "data.json", timeout=10) as answer:
            document = json.load(answer)
    assert document["samples"][0]["strict_ms"] == 5
    assert document["stage"] == "deploying"
