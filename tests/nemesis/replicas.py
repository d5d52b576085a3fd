"""Replicas of a partition are the same bytes on every broker's disk, once nothing is written."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from local_cluster.client.model import NewTopic
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.cluster import Cluster, until

EQUAL_SECONDS_MAX: Final = 60.0
UNLIMITED: Final = "-1"
"""Of a retention, as Kafka has it."""


async def check_replicas(cluster: Cluster, topics: Sequence[NewTopic]) -> Findings:
    """Anomaly: unequal-replicas, in the topics that `is_compared`."""
    findings = Findings()
    for topic in topics:
        if not is_compared(topic):
            continue
        for partition in sorted(topic.assignments or {}):
            name = f"{topic.name}-{partition}"
            findings.checked["replicas"] += 1
            try:
                await until(
                    lambda name=name: len(set(_digests(cluster, name))) == 1,  # type: ignore[misc]
                    "equal replicas",
                    EQUAL_SECONDS_MAX,
                )
            except TimeoutError:
                findings.add("unequal-replicas", f"{name}: {_digests(cluster, name)}")
    return findings


def is_compared(topic: NewTopic) -> bool:
    """Not what is compacted, or deleted within a life: each broker does so at its own time."""
    is_kept = all(
        topic.configs.get(name, UNLIMITED) == UNLIMITED
        for name in ("retention.ms", "retention.bytes")
    )
    return is_kept and "compact" not in topic.configs.get("cleanup.policy", "")


def _digests(cluster: Cluster, name: str) -> list[str]:
    """Length and digest of each broker's segments, one after another."""
    return [digest(cluster.log_directory(node) / name) for node in cluster.nodes]


def digest(partition: Path) -> str:
    """Of all segments, wherever they were rolled."""
    content = hashlib.sha256()
    size = 0
    for path in sorted(partition.glob("*.log")):
        segment = path.read_bytes()
        content.update(segment)
        size += len(segment)
    return f"{size} bytes {content.hexdigest()[:12]}"
