"""Subscriptions of client metrics: the CLIENT_METRICS configs, and which clients they match. Pure.

Source: KIP-714; Kafka's ClientMetricsConfigs and ClientMetricsInstanceMetadata.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from crc32c import crc32c

from local_cluster.controller.model import znode_paths

ALL_METRICS: Final = "*"
INTERVAL_MS_DEFAULT: Final = 300_000


class Subscription(NamedTuple):
    """One CLIENT_METRICS resource."""

    metrics: tuple[str, ...]
    """Prefixes of names; `*` stands for all."""
    interval_ms: int
    match: tuple[tuple[str, re.Pattern[str]], ...]
    """Attributes of a client, and the pattern that each has to match as a whole."""

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """Return whether each pattern matches; without patterns every client does."""
        return all(pattern.fullmatch(attributes.get(name, "")) for name, pattern in self.match)


class Wanted(NamedTuple):
    """What all matching subscriptions together ask of one client."""

    metrics: tuple[str, ...]
    interval_ms: int

    def subscription_id(self, instance_id: uuid.UUID) -> int:
        """Return the id by which a push names it, a signed 32-bit integer.

        As in Kafka: CRC-32C of metrics and interval, XOR Java's hash of the instance id. With
        several metrics Kafka's id depends on the order of a Java HashSet; ours sorts them.
        """
        text = f"[{', '.join(self.metrics)}]{self.interval_ms}"
        high, low = divmod(instance_id.int, 1 << 64)
        mixed = high ^ low
        unsigned = (crc32c(text.encode()) ^ (mixed >> 32) ^ mixed) & 0xFFFF_FFFF
        return unsigned - (1 << 32) if unsigned >= 1 << 31 else unsigned


def read_subscriptions(entities: Mapping[str, Mapping[str, str]]) -> tuple[Subscription, ...]:
    """Return the subscriptions among the entity configs; they are checked when they are set.

    A subscription that only an outside tool can have written, and that is not valid, is left out.
    """
    found = []
    for entity in sorted(entities):
        kind, _ = znode_paths.kind_and_name(entity)
        if kind == znode_paths.CLIENT_METRICS_CONFIGS and entities[entity]:
            try:
                found.append(_read(entities[entity]))
            except (ValueError, re.error):
                continue
    return tuple(found)


def combine(subscriptions: Iterable[Subscription], attributes: Mapping[str, str]) -> Wanted:
    """Return the union of the metrics, and the shortest interval, of those that match."""
    metrics: set[str] = set()
    interval_ms = INTERVAL_MS_DEFAULT
    for each in subscriptions:
        if each.matches(attributes):
            metrics.update(each.metrics)
            interval_ms = min(interval_ms, each.interval_ms)
    if ALL_METRICS in metrics:
        metrics = {ALL_METRICS}
    return Wanted(tuple(sorted(metrics)), interval_ms)


def instance_text(instance_id: uuid.UUID) -> str:
    """Return a client instance id as Kafka writes it: base64, 22 characters."""
    return base64.urlsafe_b64encode(instance_id.bytes).rstrip(b"=").decode()


def _read(configs: Mapping[str, str]) -> Subscription:
    match: dict[str, re.Pattern[str]] = {}
    for pattern in _list(configs.get("match", "")):
        name, _, regex = pattern.partition("=")
        match[name.strip()] = re.compile(regex.strip())
    return Subscription(
        tuple(_list(configs.get("metrics", ""))),
        int(configs.get("interval.ms", INTERVAL_MS_DEFAULT)),
        tuple(match.items()),
    )


def _list(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
