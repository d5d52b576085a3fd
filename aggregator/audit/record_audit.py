"""The audit of one partition record by record, along the offset map. Pure.

Add the records of both logs in offset order as they are read, and call `judge` after each addition.
`end_source` and `end_target` mark the end of a log. Memory does not grow with the logs: the map is
monotonic, so a copy and its original come at the same time.

    verdict        of a record
    COMPLETE       the copy at the mapped offset equals the original
    ALTERED        the copy at the mapped offset differs
    LOST           the source has it; the target and the journal do not
    DUPLICATED     the target has it a second time, at an offset that the map does not have
    FOREIGN        another producer wrote it into a copy that belongs to the link alone
    EXPECTED GAP   the journal explains it, or it lies before the start of the link
    CLEANED        retention or compaction of the target deleted the copy
    LATE           it is at the source behind the end of the map
    UNVERIFIED     the other side no longer has it, or a rule of the link hides the reason

In a compacted target, a missing copy is CLEANED if a later copy has its key, or if it was a
tombstone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from aggregator.audit.record_findings import RecordFindings
from local_cluster.records.batch import Record
from local_cluster.records.fingerprint import fingerprint_record
from mirror_maker.formats import OffsetMap
from mirror_maker.formats.verdicts import Verdict

RECENT_MAX: Final = 10_000
"""Most copies that are remembered, to recognize a duplicate."""
CLEANED_KEYS_MAX: Final = 1_000_000
"""Most missing copies of a compacted target whose keys are followed; others are UNVERIFIED."""


class OffsetRanges(Protocol):
    """Ranges of offsets from the journal."""

    def contains(self, offset: int) -> bool: ...


class CopiedRecord(NamedTuple):
    """A record of the target's log, and the producer of its batch."""

    record: Record
    producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRules:
    """The differences between the logs that are no faults."""

    producer_id: int
    """Producer id of the link."""
    is_shared: bool = False
    """Whether other producers may write into the copy."""
    is_compacted: bool = False
    """Whether the target may delete copies by compaction."""
    leaves_out: str | None = None
    """Why the link may skip records without a journal entry; None if it copies every record."""
    is_rewritten: bool = False
    """Whether the target replaces timestamps."""
    is_transformed: bool = False
    """Whether the link changes records."""


class MissingCopies:
    """Originals whose copies a compacted target lacks, by key, until a later copy has the key."""

    def __init__(self) -> None:
        self._originals: dict[bytes | None, list[Record]] = {}
        self._count = 0

    def add(self, original: Record) -> bool:
        """Remember an original; return False if the limit is reached."""
        if self._count >= CLEANED_KEYS_MAX:
            return False
        self._originals.setdefault(original.key, []).append(original)
        self._count += 1
        return True

    def remove_key(self, key: bytes | None) -> int:
        """Forget the originals with this key; return their number."""
        if not self._originals:
            return 0
        removed = len(self._originals.pop(key, ()))
        self._count -= removed
        return removed

    def drain(self) -> Iterator[tuple[Record, bool]]:
        """Forget every original; yield each, and whether it is the last one with its key."""
        for originals in self._originals.values():
            for original in originals:
                yield original, original is originals[-1]
        self._originals = {}
        self._count = 0


class RecordAudit:
    """The audit of one partition; `findings` is the result."""

    def __init__(
        self,
        offset_map: OffsetMap,
        rules: RecordRules,
        *,
        lost: OffsetRanges,
        foreign: OffsetRanges,
        target_log_start: int,
        target_log_end: int,
    ) -> None:
        """`lost` are source offsets of the journal, `foreign` are target offsets of the journal.
        Offsets [start, end) of the target's log can be read."""
        self.findings = RecordFindings()
        self._map = offset_map
        self._rules = rules
        self._lost = lost
        self._foreign = foreign
        self._target_log_start = target_log_start
        self._target_log_end = target_log_end
        self._originals: deque[Record] = deque()
        self._copies: deque[CopiedRecord] = deque()
        self._is_source_ended = self._is_target_ended = False
        self._recent: dict[int, int] = {}
        """Fingerprints of copies to source offsets, the newest last."""
        self._missing = MissingCopies()

    @property
    def wants_source(self) -> bool:
        """Whether `judge` needs more records of the source."""
        return not self._originals and not self._is_source_ended

    @property
    def wants_target(self) -> bool:
        """Whether `judge` needs more records of the target."""
        return not self._copies and not self._is_target_ended

    def add_source(self, records: Iterable[Record]) -> None:
        """Add the next records of the source."""
        self._originals.extend(records)

    def add_target(self, records: Iterable[Record], producer_id: int) -> None:
        """Add the next records of the target, from one batch."""
        self._copies.extend(CopiedRecord(record, producer_id) for record in records)

    def trim_target(self, log_start: int) -> None:
        """Set a new log start of the target."""
        self._target_log_start = max(self._target_log_start, log_start)

    def end_source(self) -> None:
        self._is_source_ended = True

    def end_target(self) -> None:
        self._is_target_ended = True

    def judge(self) -> None:
        """Judge the added records as far as possible."""
        while not self.wants_source and not self.wants_target:
            copy = self._copies[0] if self._copies else None
            original = self._originals[0] if self._originals else None
            if copy is not None:
                source_offset = self._map.source_of(copy.record.offset)
                if source_offset is None:
                    self._judge_unmapped(*self._copies.popleft())
                elif original is None or source_offset < original.offset:
                    self._judge_gone(self._copies.popleft().record)
                elif source_offset > original.offset:
                    self._judge_missing(self._originals.popleft())
                else:
                    self._compare(self._originals.popleft(), self._copies.popleft().record)
            elif original is not None:
                self._judge_missing(self._originals.popleft())
            else:
                break
        if self._is_source_ended and self._is_target_ended and not self._copies:
            self._end_missing()

    def _compare(self, original: Record, copy: Record) -> None:
        self._see_key(copy)
        if self._rules.is_transformed or self._rules.is_rewritten:
            self.findings.add_unverified(
                "the link's transforms change its records"
                if self._rules.is_transformed
                else "the target replaces the timestamps of records"
            )
            return
        fingerprint = fingerprint_record(copy)
        self._remember(fingerprint, original.offset)
        if fingerprint == fingerprint_record(original):
            self.findings.count(Verdict.COMPLETE)
            return
        detail = f"the copy of source offset {original.offset} holds {_difference(original, copy)}"
        self.findings.add_fault(Verdict.ALTERED, detail, original, copy)

    def _judge_unmapped(self, copy: Record, producer_id: int) -> None:
        """Judge a record of the target that the map does not have."""
        offset_map, at = self._map, copy.offset
        is_ours = producer_id == self._rules.producer_id
        self._see_key(copy)
        if self._rules.is_shared and not is_ours:
            return  # a record of another producer
        if offset_map.hole_of(at) is not None:
            self.findings.add_unverified("the journal: copied, and the source no longer has it")
        elif at < offset_map.target_start:
            self.findings.add_unverified("it lies before the copies that the map has")
        elif is_ours and at >= offset_map.target_next:
            self.findings.add_unverified("it is not mapped yet")
        elif self._foreign.contains(at):
            self.findings.count(Verdict.EXPECTED_GAP)
        else:
            known = self._recent.get(fingerprint_record(copy))
            if known is not None:
                detail = f"a second copy of source offset {known}"
                self.findings.add_fault(Verdict.DUPLICATED, detail, None, copy, source_offset=known)
            else:
                detail = f"producer {producer_id} wrote it, and the map does not have it"
                self.findings.add_fault(Verdict.FOREIGN, detail, None, copy)

    def _judge_gone(self, copy: Record) -> None:
        """Judge a mapped copy whose original the source no longer has."""
        self._see_key(copy)
        self._remember(fingerprint_record(copy), self._map.source_of(copy.offset) or 0)
        self.findings.add_unverified("the source no longer has it")

    def _judge_missing(self, original: Record) -> None:
        """Judge a record of the source without a copy at the mapped offset."""
        offset_map, at = self._map, original.offset
        mapped = offset_map.next_mapped(at)
        if mapped is not None and mapped[0] == at:
            self._judge_missing_copy(original, mapped[1])
        elif at >= offset_map.source_next:
            self.findings.count(Verdict.LATE)
        elif self._lost.contains(at) or at < offset_map.source_start:
            self.findings.count(Verdict.EXPECTED_GAP)
        elif offset_map.translate(at).target_offset is None:
            self.findings.count(Verdict.CLEANED)
        elif any(start <= at < end for start, end in offset_map.holes()):
            self.findings.add_unverified(
                "the journal: some records of these source offsets were copied"
            )
        elif self._rules.leaves_out is not None:
            self.findings.add_unverified(self._rules.leaves_out)
        else:
            detail = "the source has it, and it is neither copied nor in the journal"
            self.findings.add_fault(Verdict.LOST, detail, original, None)

    def _judge_missing_copy(self, original: Record, target_offset: int) -> None:
        if target_offset < self._target_log_start:
            self.findings.count(Verdict.CLEANED)
        elif target_offset >= self._target_log_end:
            self.findings.add_unverified(
                "it lies behind the readable end: another producer's transaction is open there"
            )
        elif not self._rules.is_compacted:
            detail = f"the map has it at target offset {target_offset}, the log does not"
            self.findings.add_fault(
                Verdict.LOST, detail, original, None, target_offset=target_offset
            )
        elif not self._missing.add(original):
            self.findings.add_unverified("too many copies were compacted to follow all keys")

    def _see_key(self, copy: Record) -> None:
        """A copy has this key: the missing copies before it were compacted."""
        cleaned = self._missing.remove_key(copy.key)
        if cleaned:
            self.findings.count(Verdict.CLEANED, cleaned)

    def _end_missing(self) -> None:
        for original, is_last in self._missing.drain():
            if is_last and original.value is not None:
                detail = "compaction deleted the copy, and no later copy has its key"
                self.findings.add_fault(Verdict.LOST, detail, original, None)
            else:
                self.findings.count(Verdict.CLEANED)

    def _remember(self, fingerprint: int, source_offset: int) -> None:
        self._recent[fingerprint] = source_offset
        if len(self._recent) > RECENT_MAX:
            del self._recent[next(iter(self._recent))]


def _difference(original: Record, copy: Record) -> str:
    names = ("timestamp_ms", "key", "value", "headers")
    others = [name for name in names if getattr(original, name) != getattr(copy, name)]
    return f"another {' and another '.join(others)}"
