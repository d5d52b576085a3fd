"""The facts that the checks judge: what outside clients were told, and what both logs hold.

Pure values. Everything that a check uses is here, so that its unit tests can write histories down.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Partition(NamedTuple):
    """A partition of a topic of a cluster."""

    cluster: str
    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.cluster}/{self.topic}-{self.number}"


class Content(NamedTuple):
    """All of a record that a mirror must not change."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


class Fate(StrEnum):
    """What the producer was told about a record."""

    READABLE = "readable"
    """Acknowledged, and its transaction, if any, was committed."""
    NEVER = "never"
    """Its transaction was aborted: no reader may see it."""
    UNKNOWN = "unknown"
    """No answer about the record or about its transaction: it may be in the log or not."""


class Written(NamedTuple):
    """A record that an outside producer sent."""

    identity: str
    """Unique in the run; part of the record itself (`content.py`)."""
    partition: Partition
    generation: int
    """How often the topic had been deleted and re-created before."""
    content: Content
    fate: Fate
    offset: int | None
    """As the delivery report says; None without one, or where the report has no offset."""


class Logged(NamedTuple):
    """A record that an outside consumer read from a final log."""

    offset: int
    identity: str | None
    """None where the record has no identity that could be read."""
    content: Content


@dataclass(frozen=True, slots=True)
class Log:
    """The final log of a partition, read with read_committed from its start to its end."""

    partition: Partition
    start_offset: int
    end_offset: int
    records: tuple[Logged, ...]


class Flow(NamedTuple):
    """One source partition on its way to one target partition."""

    link: str
    source: Partition
    target: Partition

    def __str__(self) -> str:
        return f"{self.link}: {self.source} -> {self.target}"


class EntryKind(StrEnum):
    """What a journal entry says."""

    LOST = "lost"
    """Source offsets [source_from, source_to) are not copied."""
    COPIED = "copied"
    """Nothing is lost: target offsets [target_offset, target_to) hold copies of source offsets
    [source_from, source_to). The source had lost `copied_count` of these records before they were
    mapped, and which is which is not known."""
    FOREIGN = "foreign"
    """Nothing is lost: target offsets [target_offset, target_to) hold records that the link did
    not write."""


class JournalEntry(NamedTuple):
    """An entry of a link's journal."""

    kind: EntryKind
    link: str
    topic: str
    partition: int
    source_from: int
    source_to: int | None
    """None: everything from `source_from` on, of a topic that was deleted or truncated."""
    records_count: int | None
    reason: str
    target_topic: str
    target_offset: int
    target_to: int | None
    copied_count: int | None
    noticed_at_ms: int

    def spans(self, source_offset: int) -> bool:
        """Whether a source offset lies in the entry's range."""
        return self.source_from <= source_offset and (
            self.source_to is None or source_offset < self.source_to
        )

    def holds(self, target_offset: int) -> bool:
        """Whether a target offset lies among the records that the entry speaks of."""
        return self.target_to is not None and self.target_offset <= target_offset < self.target_to

    def is_hole_at(self, source_offset: int) -> bool:
        """Whether the place of a reader at this source offset is not known exactly."""
        return (
            self.kind is EntryKind.COPIED
            and self.source_from <= source_offset
            and (self.source_to is None or source_offset <= self.source_to)
        )
