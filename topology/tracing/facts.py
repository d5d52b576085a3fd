"""What the clusters, links and aggregators say of one record. Pure.

Unknown is None. Times are milliseconds since the epoch, each by the clock of whoever noted it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from local_cluster.records.batch import Record
from local_cluster.records.header import BatchHeader
from topology.why.facts import RecordFacts


class Place(NamedTuple):
    """A record's place in a cluster."""

    cluster: str
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}, offset {self.offset}, of {self.cluster}"


class Bounds(NamedTuple):
    """A moment that is known within bounds; either may be unknown."""

    not_before_ms: int | None = None
    not_after_ms: int | None = None

    @property
    def is_known(self) -> bool:
        return self.not_before_ms is not None or self.not_after_ms is not None

    def no_later_than(self, time_ms: int | None) -> Bounds:
        """Return the bounds with a further upper bound."""
        known = [each for each in (self.not_after_ms, time_ms) if each is not None]
        return Bounds(self.not_before_ms, min(known, default=None)).without_conflict()

    def no_earlier_than(self, time_ms: int | None) -> Bounds:
        """Return the bounds with a further lower bound."""
        known = [each for each in (self.not_before_ms, time_ms) if each is not None]
        return Bounds(max(known, default=None), self.not_after_ms).without_conflict()

    def without_conflict(self) -> Bounds:
        """Return the upper bound alone if the lower one, by another clock, is later."""
        if None not in self and (self.not_before_ms or 0) > (self.not_after_ms or 0):
            return Bounds(None, self.not_after_ms)
        return self


NO_TIME: Final = Bounds()


class Transaction(StrEnum):
    """The fate of the transaction that a record belongs to."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """A record in a log, with its batch."""

    record: Record
    batch: BatchHeader
    transaction: Transaction | None = None
    """None if it belongs to none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What a cluster has at a place."""

    place: Place
    datacenter: str
    cluster_id: str = ""
    topic_id: uuid.UUID | None = None
    stored: StoredRecord | None = None
    missing: str | None = None
    """Why there is no record: deleted, not written yet, a marker, or no answer."""
    leader: int | None = None
    """The broker that leads the partition now."""
    leader_epoch: int | None = None
    """The present leader epoch."""
    start: int | None = None
    end: int | None = None
    """The high watermark now."""


class Batch(NamedTuple):
    """The batch that carried the record to the target, by the link's receipts."""

    target_offset: int
    records_count: int
    producer_epoch: int
    sequence: int
    written_ms: int
    """When the receipt was written, by the worker's clock."""


class Stated(NamedTuple):
    """What a link's completeness topic says of one source offset, by its workers' clocks."""

    committed: Bounds = NO_TIME
    passed: Bounds = NO_TIME
    """When the link's position passed the record: it was copied, or left out."""
    complete_from_ms: int | None = None
    """When the copy was first said to be complete through the record's commit."""
    worker_id: str | None = None
    """The worker that passed it."""


NOTHING_STATED: Final = Stated()


class Audited(NamedTuple):
    """What the link's audit says of the copy."""

    is_compared: bool
    """Whether the audit has read the target's log up to the copy."""
    at_ms: int
    """When it last read."""
    finding: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCopy:
    """One link's copy of the record."""

    link: str
    source: Place
    target: str
    """The target's name."""
    datacenter: str
    """The target's datacenter."""
    source_cluster_id: str = ""
    source_topic_id: uuid.UUID | None = None
    """The source as the link knows it, also while the source does not answer."""
    problem: str | None = None
    """Why nothing is known of it: a cluster does not answer."""
    fate: RecordFacts | None = None
    mapped_ms: int | None = None
    """When the map's block with the record was written; it may replace an earlier block."""
    batch: Batch | None = None
    stated: Stated = NOTHING_STATED
    audited: Audited | None = None
    log: LogFacts | None = None
    """The target's log at the copy's place."""
    has_batch_spans: bool = False
    """Whether the link creates spans of batches."""
    aggregate: Mapping[str, Any] | None = None
    """The answer of the target's aggregator about the merged topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WayFacts:
    """Everything that was found about one record."""

    asked: Place
    """The place that was named: the record, or one of its copies."""
    origin: LogFacts
    copies: tuple[LinkCopy, ...] = ()
    """In the order of the links, those of copies after their own."""
    remarks: tuple[str, ...] = ()
