"""The lag of links, assembled from the status of their mirror workers. Pure.

The workers share a link's partitions, and each reports its own. An unknown lag is None, never 0: a
link has a total only if every known partition is reported with its lag. A partition whose topic was
deleted at the source needs no lag. The probe topic is excluded, as it is in the workers' status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mirror_maker.formats.probe import is_probe_topic

WorkerStatus = Mapping[str, Any]
SOURCE_GONE: Final = "SOURCE_GONE"
"""State in a worker's `/status` of a partition whose source topic was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """One source partition, as its worker reports it."""

    topic: str
    partition: int
    target_topic: str
    state: str
    records: int | None
    bytes: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLag:
    """One link: the sums of records and bytes, and the maximum of the seconds."""

    partitions: tuple[PartitionLag, ...]
    partitions_known: int | None
    """Number of partitions to copy; None while no worker reports the link."""
    records: int | None
    bytes: int | None
    seconds: float | None


UNKNOWN_LINK_LAG = LinkLag(
    partitions=(), partitions_known=None, records=None, bytes=None, seconds=None
)


def link_lag(link: str, workers: Iterable[WorkerStatus]) -> LinkLag:
    """Return the lag of a link from the `/status` documents of its workers."""
    reports = [each for worker in workers for each in worker["links"] if each["name"] == link]
    if not reports:
        return UNKNOWN_LINK_LAG
    known = max(int(each["partitions_known"]) for each in reports)
    found: dict[tuple[str, int], PartitionLag] = {}
    for each in reports:
        for flow in each["flows"]:
            part = _partition(flow)
            if is_probe_topic(part.topic):
                continue
            at = (part.topic, part.partition)
            # During a rebalance two workers may report a partition: a known lag wins.
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
    """Return the end of each source partition that a worker reports, by (topic, partition)."""
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
