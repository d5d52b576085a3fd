"""Acknowledged records are read, once, in order, where they were said to be. Pure.

What was attempted and neither acknowledged nor refused may be there or not ("unknown").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from tests.nemesis.checkers.findings import Findings


class Outcome(Enum):
    """What a client was told about a write."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    """Surely not written."""
    UNKNOWN = "unknown"


class Write(NamedTuple):
    """One record that a producer tried to write."""

    producer: str
    number: int
    """Counted up per producer and partition."""
    partition: int
    outcome: Outcome
    offset: int = -1
    """Where it was acknowledged to be; -1 where that was not told."""
    timestamp_ms: int = -1
    """Its own, where the producer notes it."""


class Found(NamedTuple):
    """One record that was read in the end."""

    offset: int
    producer: str
    number: int


def check_set(writes: Iterable[Write], read: Mapping[int, Sequence[Found]]) -> Findings:
    """Anomalies: lost, duplicate, invented, refused-read, reordered, moved.

    `read` holds each partition's records in the order in which they were read.
    """
    findings = Findings()
    attempted: dict[tuple[int, str, int], Write] = {}
    for write in writes:
        attempted[write.partition, write.producer, write.number] = write
    found: dict[tuple[int, str, int], int] = {}
    latest: dict[tuple[int, str], int] = defaultdict(lambda: -1)
    for partition, records in read.items():
        for record in records:
            key = partition, record.producer, record.number
            where = f"{record.producer}:{record.number} at {partition}/{record.offset}"
            findings.checked["read"] += 1
            if key in found:
                findings.add("duplicate", f"{where}, and at offset {found[key]}")
                continue
            found[key] = record.offset
            known = attempted.get(key)
            if known is None:
                findings.add("invented", where)
            elif known.outcome is Outcome.REFUSED:
                findings.add("refused-read", where)
            elif known.offset >= 0 and known.offset != record.offset:
                findings.add("moved", f"{where}, acknowledged at {known.offset}")
            if record.number < latest[partition, record.producer]:
                findings.add("reordered", f"{where} after {latest[partition, record.producer]}")
            latest[partition, record.producer] = record.number
    for key, write in attempted.items():
        findings.checked[write.outcome.value] += 1
        if write.outcome is Outcome.ACKNOWLEDGED and key not in found:
            findings.add(
                "lost", f"{write.producer}:{write.number} at {write.partition}/{write.offset}"
            )
    return findings
