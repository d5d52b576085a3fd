"""A scrape of a process's /metrics, parsed by Prometheus's own client."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_SECONDS = 20.0
OTHERS_NAMES = ("kafka_connect_", "kafka_consumer_fetch_")
"""Metrics of the mirror by MirrorMaker 2's names, which have no help."""


@dataclass(frozen=True)
class Scrape:
    """Samples by name, each with its labels."""

    samples: dict[str, list[tuple[dict[str, str], float]]]

    def all(self, name: str, **labels: str) -> list[tuple[dict[str, str], float]]:
        """The samples with at least these labels."""
        return [
            (has, value)
            for has, value in self.samples.get(name, [])
            if labels.items() <= has.items()
        ]

    def one(self, name: str, **labels: str) -> float:
        """The sample with exactly these labels."""
        found = [value for has, value in self.samples.get(name, []) if has == labels]
        assert len(found) == 1, f"{name}{labels}: {self.samples.get(name)}"
        return found[0]

    def sum(self, name: str, **labels: str) -> float:
        found = self.all(name, **labels)
        assert found, f"{name}{labels} has no sample"
        return sum(value for _, value in found)


def parse(text: str) -> Scrape:
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    names = {re.split(r"[{ ]", line, maxsplit=1)[0] for line in text.splitlines()}
    seen: set[str] = set()
    for family in text_string_to_metric_families(text):
        assert family.name not in seen, f"the samples of {family.name} are apart"
        seen.add(family.name)
        has_help = bool(family.documentation) or family.name.startswith(OTHERS_NAMES)
        assert has_help, f"{family.name} has no help"
        for sample in family.samples:
            # The parser adds _total to each counter without it.
            name = sample.name if sample.name in names else sample.name.removesuffix("_total")
            samples.setdefault(name, []).append((sample.labels, sample.value))
    return Scrape(samples)


def scrape(url: str, query: str = "", *, token: str | None = None) -> Scrape:
    """Scrape `url`/metrics."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{url}/metrics{query}", headers=headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return parse(response.read().decode())


def get_json(url: str) -> tuple[int, Any]:
    """The status and the document at `url`."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
