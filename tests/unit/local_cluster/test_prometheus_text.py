"""The text format, as Prometheus's own client reads it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from local_cluster.prometheus_text import Sample, counter, gauge, render_family, samples
from tests.support.scraping import parse


@given(st.text(), st.floats(allow_nan=False))
def test_any_label_and_value_come_back(label: str, value: float) -> None:
    family = gauge("m", "A metric.", Sample(value, {"one": label, "two": "x"}))
    # A carriage return is legal in a label, but the parser splits lines at it.
    if "\r" not in label and label.isprintable():
        assert parse(render_family(family)).samples == {"m": [({"one": label, "two": "x"}, value)]}


def test_a_metric_without_samples_has_no_text() -> None:
    assert render_family(counter("m_total", "A metric.")) == ""


def test_an_unknown_value_has_no_sample() -> None:
    assert samples("at", [("a", 1), ("b", None), ("c", 0)]) == (
        Sample(1, {"at": "a"}),
        Sample(0, {"at": "c"}),
    )


def test_a_sample_without_labels_has_no_braces() -> None:
    assert render_family(counter("m_total", "A metric.", Sample(3))) == (
        "# HELP m_total A metric.\n# TYPE m_total counter\nm_total 3\n"
    )
