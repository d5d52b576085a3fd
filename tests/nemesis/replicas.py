"""Replicas of a partition are the same bytes on every broker's disk, once nothing is written."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from local_cluster.client.model import NewTopic
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.cluster import Cluster, until

EQUAL_SECONDS_MAX: Final = 60.0
UNLIMITED: Final = "-1"
"""Of a retention, as Kafka has it."""
_BATCH_HEAD: Final = struct.Struct(">qi")
"""Base offset of a batch, and the bytes that follow."""


async def check_replicas(
    cluster: Cluster, topics: Sequence[NewTopic], *, are_deleted_from: bool = False
) -> Findings:
    """Anomaly: unequal-replicas, in the topics that `is_compared`.

    With `are_deleted_from` (DeleteRecords), replicas are compared from where the shortest begins: a
    follower that was away starts over at its leader's log start offset, as in Kafka.
    """
    findings = Findings()
    for topic in topics:
        if not is_compared(topic):
            continue
        for partition in sorted(topic.assignments or {}):
            name = f"{topic.name}-{partition}"
            directories = [cluster.log_directory(node) / name for node in cluster.nodes]
            digests = partial(digests_of, directories, from_common_start=are_deleted_from)
            findings.checked["replicas"] += 1
            try:
                await until(
                    lambda digests=digests: len(set(digests())) == 1,  # type: ignore[misc]
                    "equal replicas",
                    EQUAL_SECONDS_MAX,
                )
            except TimeoutError:
                findings.add("unequal-replicas", f"{name}: {digests()}")
    return findings


def is_compared(topic: NewTopic) -> bool:
    """Not what is compacted, or deleted within a life: each broker does so at its own time."""
    is_kept = all(
        topic.configs.get(name, UNLIMITED) == UNLIMITED
        for name in ("retention.ms", "retention.bytes")
    )
    return is_kept and "compact" not in topic.configs.get("cleanup.policy", "")


def digests_of(directories: Sequence[Path], *, from_common_start: bool) -> list[str]:
    """Return length and digest of each replica's segments, wherever they were rolled."""
    start = max(map(first_offset, directories), default=0) if from_common_start else 0
    return [digest(directory, start) for directory in directories]


def first_offset(partition: Path) -> int:
    """Return the base offset of the first segment."""
    return min((int(path.stem) for path in partition.glob("*.log")), default=0)


def digest(partition: Path, start_offset: int = 0) -> str:
    """Digest the batches from the one with `start_offset` on."""
    content = hashlib.sha256()
    size = 0
    for path in sorted(partition.glob("*.log")):
        for base_offset, batch in _batches(path.read_bytes()):
            if base_offset >= start_offset:
                content.update(batch)
                size += len(batch)
    return f"{size} bytes {content.hexdigest()[:12]}"


def _batches(segment: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield base offset and bytes of each batch; a torn one at the end is yielded as it is."""
    position = 0
    while position < len(segment):
        base_offset, size = 0, len(segment)
        if position + _BATCH_HEAD.size <= len(segment):
            base_offset, following = _BATCH_HEAD.unpack_from(segment, position)
            size = _BATCH_HEAD.size + max(0, following)
        yield base_offset, segment[position : position + size]
        position += size
