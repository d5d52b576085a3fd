"""Pushes the metrics of a process that renders them as Prometheus text.

Of a histogram the sum and the count are pushed, as counters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Final

from local_cluster.monitoring.push.wanted import is_push_wanted
from local_cluster.prometheus_text import Family, Head, Kind, Sample

if TYPE_CHECKING:
    from prometheus_client import Metric

    from local_cluster.monitoring.push.otlp import MetricsPush

_TOTALS: Final = ("_sum", "_count")


def open_text_push(
    text: Callable[[], str],
    attributes: Callable[[], dict[str, str]],
    *,
    without: Collection[str] = (),
) -> MetricsPush | None:
    """Return the push of a process; None if the environment asks for none, or it cannot be had.

    `text` is called on the event loop. `attributes` returns those of the resource, `service.name`
    among them. Samples that have one of the labels `without` are for a scrape.
    """
    if not is_push_wanted():
        return None
    from local_cluster.monitoring.push.otlp import open_push

    async def collect() -> list[Family]:
        # A worker of thousands of partitions has 45,000 lines, so a thread reads them.
        return await asyncio.to_thread(families_of, text(), without)

    return open_push(collect, attributes())


def families_of(text: str, without: Collection[str] = ()) -> list[Family]:
    """Return the gauges and counters of a text, without the samples that have one of the labels."""
    from prometheus_client.parser import text_string_to_metric_families

    left_out = tuple(f'{label}="' for label in without)
    lines = [
        line
        for line in text.splitlines()
        if line.startswith("#") or not any(each in line for each in left_out)
    ]
    found: list[Family] = []
    for metric in text_string_to_metric_families("\n".join(lines)):
        found += _families(metric)
    return found


def _families(metric: Metric) -> Iterator[Family]:
    kind: Kind = "gauge" if metric.type in ("gauge", "unknown") else "counter"
    samples: dict[str, list[Sample]] = {}
    for each in metric.samples:
        if kind == "counter" and metric.type != "counter" and not each.name.endswith(_TOTALS):
            continue  # a bucket or a quantile
        if not each.name.endswith("_created"):
            samples.setdefault(each.name, []).append(Sample(each.value, each.labels))
    for name, of_name in samples.items():
        yield Family(Head(name, kind, metric.documentation), tuple(of_name))
