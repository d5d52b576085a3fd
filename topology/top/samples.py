"""The samples of a scrape that the screen shows. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families


class Sample(NamedTuple):
    """One value of a metric with its labels."""

    labels: Mapping[str, str]
    value: float


Samples = Mapping[str, list[Sample]]
"""By name of the metric; a metric without a sample is absent."""


def parse_samples(text: str, names: Collection[str]) -> Samples:
    """Return the samples of the named metrics. Other lines are not parsed: there may be 30,000.

    Raises ValueError for a line that is no sample.
    """
    lines = "".join(f"{line}\n" for line in _lines_of(text, frozenset(names)))
    found: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(lines):
        for each in family.samples:
            found.setdefault(each.name, []).append(Sample(each.labels, each.value))
    return found


def total(samples: Samples, name: str, labels: Mapping[str, str] | None = None) -> float | None:
    """Return the sum of the samples with these labels, of which "" is an absent one; or None."""
    wanted = (labels or {}).items()
    values = [
        each.value
        for each in samples.get(name, ())
        if all(each.labels.get(label, "") == value for label, value in wanted)
    ]
    return sum(values) if values else None


def totals_by(samples: Samples, name: str, label: str) -> dict[str, float]:
    """Return the sums of a metric's samples by the value of a label, in one pass."""
    found: dict[str, float] = {}
    for each in samples.get(name, ()):
        value = each.labels.get(label, "")
        found[value] = found.get(value, 0.0) + each.value
    return found


def maxima_by(samples: Samples, name: str, label: str) -> dict[str, float]:
    """Return the largest sample of a metric by the value of a label, in one pass."""
    found: dict[str, float] = {}
    for each in samples.get(name, ()):
        value = each.labels.get(label, "")
        found[value] = max(found.get(value, each.value), each.value)
    return found


def _lines_of(text: str, names: frozenset[str]) -> Iterator[str]:
    for line in text.splitlines():
        if line.partition("{")[0].partition(" ")[0] in names:
            yield line
