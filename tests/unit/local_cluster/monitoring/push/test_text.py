"""What is pushed of a process that renders its metrics as Prometheus text."""

from __future__ import annotations

import pytest

from local_cluster.monitoring.push.text import families_of, open_text_push

TEXT = """\
# HELP lag How far behind.
# TYPE lag gauge
lag{link="a"} 3
lag{link="b",topic="t"} 4
lag{link="c",partition="0"} 5
# HELP copied_total Records.
# TYPE copied_total counter
copied_total{link="a"} 7
copied_created{link="a"} 1.7e9
# HELP latency From here to there.
# TYPE latency histogram
latency_bucket{link="a",le="0.1"} 1
latency_bucket{link="a",le="+Inf"} 2
latency_sum{link="a"} 0.5
latency_count{link="a"} 2
# HELP info Which.
# TYPE info gauge
info 1
"""


def test_gauges_and_counters_are_pushed_with_their_labels() -> None:
    found = {
        each.head.name: (each.head.kind, each.head.text, [tuple(s) for s in each.samples])
        for each in families_of(TEXT, ("topic", "partition"))
    }
    assert found == {
        "lag": ("gauge", "How far behind.", [(3, {"link": "a"})]),
        "copied_total": ("counter", "Records.", [(7, {"link": "a"})]),
        "latency_sum": ("counter", "From here to there.", [(0.5, {"link": "a"})]),
        "latency_count": ("counter", "From here to there.", [(2, {"link": "a"})]),
        "info": ("gauge", "Which.", [(1, {})]),
    }
    lags = next(each.samples for each in families_of(TEXT) if each.head.name == "lag")
    assert [each.value for each in lags] == [3, 4, 5]


def test_nothing_is_rendered_for_an_environment_that_wants_no_push(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unasked() -> dict[str, str]:
        raise AssertionError

    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    assert open_text_push(str, unasked) is None
