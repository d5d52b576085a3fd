"""The Prometheus text format, version 0.0.4. Pure.

A metric has a head (HELP and TYPE) and samples. An unknown value has no sample: a 0 that means
"unknown" would hide an outage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["counter", "gauge"]


class Head(NamedTuple):
    """The name, the kind and the help text of a metric."""

    name: str
    kind: Kind
    text: str

    def lines(self) -> str:
        """Return the HELP and TYPE lines."""
        return f"# HELP {self.name} {self.text}\n# TYPE {self.name} {self.kind}\n"


class Sample(NamedTuple):
    """One value of a metric."""

    value: float
    labels: Mapping[str, str] = {}


class Family(NamedTuple):
    """One metric with its samples."""

    head: Head
    samples: tuple[Sample, ...]


def gauge(name: str, text: str, *samples: Sample) -> Family:
    """Return a gauge with these samples."""
    return Family(Head(name, "gauge", text), samples)


def counter(name: str, text: str, *samples: Sample) -> Family:
    """Return a counter with these samples; its name ends in _total or _count."""
    return Family(Head(name, "counter", text), samples)


def render_family(family: Family) -> str:
    """Return the text of a metric; nothing if it has no samples."""
    if not family.samples:
        return ""
    name = family.head.name
    return family.head.lines() + "".join(
        f"{name}{labels_text(each.labels)} {each.value}\n" for each in family.samples
    )


def labels_text(labels: Mapping[str, str]) -> str:
    """Return labels as they stand behind a metric's name; nothing without labels."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items()) + "}"


def escaped(value: str) -> str:
    """Return the value of a label as it stands between quotes."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def samples(label: str, values: Iterable[tuple[str, float | None]]) -> tuple[Sample, ...]:
    """Return samples that one label tells apart; a value of None is unknown."""
    return tuple(Sample(value, {label: of}) for of, value in values if value is not None)
