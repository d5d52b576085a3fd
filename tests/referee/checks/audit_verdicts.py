"""What Heliograph's audit says, as values. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    """What the audit says of records."""

    COMPLETE = "COMPLETE"
    LATE = "LATE"
    LOST = "LOST"
    DUPLICATED = "DUPLICATED"
    ALTERED = "ALTERED"
    FOREIGN = "FOREIGN"
    EXPECTED_GAP = "EXPECTED GAP"
    """The journal tells what is missing, or what is foreign."""
    CLEANED = "CLEANED"
    """Compaction or retention of the target took it."""
    UNVERIFIED = "UNVERIFIED"


class Span(NamedTuple):
    """Records of one verdict: a row of a bucket of time, or a finding about one batch. Offsets are
    [from, to), None on a side that has nothing."""

    verdict: Verdict
    start_ms: int | None
    """Of the bucket; None where the records' times are unknown."""
    records_count: int | None
    source_from: int | None
    source_to: int | None
    target_from: int | None
    target_to: int | None
    text: str
    """In the audit's own words."""

    def covers(self, source_offset: int | None, target_offset: int | None) -> bool:
        """Whether it speaks of one of these offsets."""
        return _is_in(source_offset, self.source_from, self.source_to) or _is_in(
            target_offset, self.target_from, self.target_to
        )

    def __str__(self) -> str:
        source = f"source [{self.source_from}, {self.source_to})"
        target = f"target [{self.target_from}, {self.target_to})"
        count = f"{self.records_count} records"
        return f"{self.verdict} of {count}, {source}, {target}: {self.text}"


class PartitionVerdicts(NamedTuple):
    """All that the audit says of one source partition."""

    link: str
    topic: str
    partition: int
    audited_from: int | None
    audited_to: int | None
    """Target offsets [from, to) were compared."""
    waiting: int
    """Batches that are not compared yet."""
    rows: tuple[Span, ...]
    findings: tuple[Span, ...]


def _is_in(offset: int | None, start: int | None, end: int | None) -> bool:
    if offset is None or start is None:
        return False
    return start <= offset and (end is None or offset < end)
