"""The series of clients: differences add up, and limits hold."""

from __future__ import annotations

import uuid

import pytest

from local_cluster.client_metrics import series
from local_cluster.client_metrics.otlp import ClientSample
from local_cluster.client_metrics.series import ClientSeries
from local_cluster.prometheus_text import Head, Kind

ONE, OTHER = uuid.UUID(int=8), uuid.UUID(int=9)


def sample(name: str, value: float, kind: Kind = "gauge", *, delta: bool = False) -> ClientSample:
    return ClientSample(name, kind, '{client_id="c"}', value, delta)


def written(found: ClientSeries) -> dict[str, list[str]]:
    lines: dict[Head, list[str]] = {}
    for _ in found.write(lines):
        pass
    return {head.name: rows for head, rows in lines.items() if head != series.INFO}


def test_differences_add_up_and_gauges_are_replaced() -> None:
    found = ClientSeries()
    first = (sample("sent_total", 3, "counter", delta=True), sample("lag", 5), sample("rate", 1))
    found.push(ONE, {}, first, 0, 100)
    second = (sample("sent_total", 4, "counter", delta=True), sample("lag", 6))
    found.push(ONE, {}, second, 10, 110)
    expected = {
        "sent_total": ['sent_total{client_id="c"} 7.0\n'],
        "lag": ['lag{client_id="c"} 6.0\n'],
    }
    assert written(found) == expected
    assert len(found) == 2
    found.push(ONE, {}, (), 20, 120)
    assert list(written(found)) == ["sent_total"]


def test_series_end_some_time_after_the_last_push() -> None:
    found = ClientSeries()
    found.push(ONE, {}, (sample("lag", 5),), 0, 100)
    found.push(OTHER, {}, (sample("lag", 6),), 50, 150)
    found.expire(99)
    assert len(written(found)["lag"]) == 2
    found.expire(100)
    assert written(found)["lag"] == ['lag{client_id="c"} 6.0\n']
    assert len(found) == 1


def test_at_most_so_many_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "SERIES_MAX", 3)
    found = ClientSeries()
    found.push(ONE, {}, (sample("a", 1), sample("b", 1)), 0, 100)
    found.push(OTHER, {}, (sample("a", 2), sample("b", 2)), 0, 100)
    assert (len(found), found.dropped) == (3, 1)
    found.push(ONE, {}, (sample("a", 3),), 10, 100)
    found.push(OTHER, {}, (sample("a", 4), sample("b", 4)), 10, 100)
    assert (len(found), found.dropped) == (3, 1)
