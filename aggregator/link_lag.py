"""The lag of links, put together from what their mirror workers say of themselves. Pure.

A link's partitions are shared out among workers; each tells of its own. Unknown is None, never 0:
a link has a total only where every partition that any worker knows of is told of, with its number.
Where the topic is gone at the source there is nothing to be behind of, and no number is asked for.
The probe topic is no part of the lag, as its workers do not count it either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mirror_maker.formats.probe import is_probe_topic

WorkerStatus = Mapping[str, Any]
SOURCE_GONE: Final = "SOURCE_GONE"
"""State of a partition whose topic is not there at the source, as a worker's `/status` has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """One source partition, as the worker that copies it tells."""

    topic: str
    partition: int
    target_topic: str
    state: str
    records: int | None
    bytes: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLag:
    """One link: sums of records and bytes, the worst of the seconds."""

    partitions: tuple[PartitionLag, ...]
    partitions_known: int | None
    """How many there are to copy; None while no worker tells of the link."""
    records: int | None
    bytes: int | None
    seconds: float | None


UNKNOWN_LINK_LAG = LinkLag(
    partitions=(), partitions_known=None, records=None, bytes=None, seconds=None
)


def link_lag(link: str, workers: Iterable[WorkerStatus]) -> LinkLag:
    """The lag of a link from the `/status` documents of the workers that answered."""
    told = [each for worker in workers for each in worker["links"] if each["name"] == link]
    if not told:
        return UNKNOWN_LINK_LAG
    known = max(int(each["partitions_known"]) for each in told)
    found: dict[tuple[str, int], PartitionLag] = {}
    for each in told:
        for flow in each["flows"]:
            part = _partition(flow)
            if is_probe_topic(part.topic):
                continue
            at = (part.topic, part.partition)
            # While a partition is handed over, two tell of it: what is known goes before.
            if at not in found or found[at].records is None:
                found[at] = part
    parts = tuple(found[at] for at in sorted(found))
    counted = [part for part in parts if part.state != SOURCE_GONE]
    is_complete = bool(counted) and len(parts) >= known
    return LinkLag(
        partitions=parts,
        partitions_known=known,
        records=_sum([part.records for part in counted]) if is_complete else None,
        bytes=_sum([part.bytes for part in counted]) if is_complete else None,
        seconds=_worst([part.seconds for part in counted]) if is_complete else None,
    )


def source_ends(link: str, workers: Iterable[WorkerStatus]) -> dict[tuple[str, int], int]:
    """(topic, partition) -> where the source ends, as the workers that answered last saw it."""
    return {
        (str(flow["topic"]), int(flow["partition"])): int(flow["source_high_watermark"])
        for worker in workers
        for each in worker["links"]
        if each["name"] == link
        for flow in each["flows"]
        if flow.get("source_high_watermark") is not None
    }


def _partition(flow: WorkerStatus) -> PartitionLag:
    return PartitionLag(
        topic=str(flow["topic"]),
        partition=int(flow["partition"]),
        target_topic=str(flow["target_topic"]),
        state=str(flow["state"]),
        records=flow["lag_records"],
        bytes=flow["lag_bytes"],
        seconds=flow["lag_seconds"],
    )


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _worst(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None
