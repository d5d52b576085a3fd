"""What is known when `why` decides: settings, reports of workers, and both clusters. Pure.

Unknown is None. An answer never follows from a fact that is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from mirror_maker.settings import LinkSettings

Report = Mapping[str, Any]
"""The report of a mirror worker on one link (`mirror_maker/worker/status.py`)."""


class Cause(NamedTuple):
    """One reason, with what to do about it."""

    code: str
    """For programs: a word that does not change."""
    sentence: str
    remedy: str | None = None
    """None if it passes by itself, or if nothing needs to be done."""
    is_fault: bool = True
    """False for a remark: what was asked about is well, or as it was configured."""
    lag_seconds: float | None = None
    """How far behind what was asked about is: the age of the first record that is not read, or not
    copied. None if that is unknown, or if the cause is no lag."""


def lag_words(records: int | None, seconds: float | None) -> str:
    """Return a lag in words, such as `50 records, 12 s behind`."""
    late = "" if seconds is None else f", {seconds:.0f} s"
    return f"{'an unknown number of' if records is None else records} records{late} behind"


class GroupLag(NamedTuple):
    """The lag of a group in its cluster, as `heliograph group describe` has it; None is unknown."""

    records: int | None
    seconds: float | None


class PartitionFacts(NamedTuple):
    """One partition of a cluster."""

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    start: int | None = None
    """The log start offset."""
    end: int | None = None
    """The high watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """One topic of a cluster."""

    partitions: Mapping[int, PartitionFacts]
    is_internal: bool = False
    error: str | None = None
    """Kafka's error code, if the cluster does not describe it."""
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """One cluster, as a client sees it."""

    name: str
    silent: str | None = None
    """Why no broker of it responds."""
    brokers: frozenset[int] = frozenset()
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    """State of every group, by its name."""
    group_lags: Mapping[str, GroupLag] = field(default_factory=dict)
    """Lag of the group that was asked about, by its name."""
    log_dirs: tuple[tuple[int, str, str | None, int | None], ...] = ()
    """(broker, directory, error, usable bytes) of every log directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFacts:
    """One link with both of its clusters."""

    settings: LinkSettings
    target_alias: str
    source: ClusterFacts
    target: ClusterFacts
    state: str
    """As `status` has it."""
    reason: str | None = None
    worker: Report | None = None
    log: str | None = None
    """The log of its worker."""

    @property
    def name(self) -> str:
        return self.settings.name

    def flows(self, topic: str) -> list[Mapping[str, Any]]:
        """Return the worker's report on each partition of a topic that it copies."""
        flows = (self.worker or {}).get("flows") or ()
        return [flow for flow in flows if flow["topic"] == topic]


class Fate(StrEnum):
    """What the offset map of a link says about one source offset."""

    COPIED = "copied"
    BEFORE_START = "before_start"
    """The link began to copy after it."""
    LEFT_OUT = "left_out"
    """The map covers it, and has no copy."""
    UNKNOWN = "unknown"
    """The map was cut back, or is incomplete there."""
    TRIMMED = "trimmed"
    """The target no longer has the copies there."""
    PENDING = "pending"
    """The map ends before it."""
    NO_MAP = "no_map"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    """One source offset in the offset map and the journal of a link."""

    topic: str
    partition: int
    offset: int
    fate: Fate
    target_topic: str | None = None
    target_offset: int | None = None
    mapped_to: int | None = None
    """The source offset at which the map ends."""
    starts_at: int | None = None
    """The source offset from which the link copies."""
    gap: Mapping[str, Any] | None = None
    """The journal's entry that covers it, as `heliograph gaps` shows it."""
    finding: str | None = None
    """What the audit found about it, or about its copy."""
