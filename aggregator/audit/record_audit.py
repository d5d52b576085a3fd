"""The audit of one partition record by record: both logs, read side by side along the map. Pure.

Feed the records of each side in the order of their offsets, as they come, and call `judge` now and
then; `end_source` and `end_target` say that a log has no more. The memory used does not grow with
the logs: a map is monotonic, so that a copy and its original are met at the same time.

    verdict        of a record
    COMPLETE       the copy at the mapped offset equals the original
    ALTERED        it does not
    LOST           the source has it, and neither the target nor the journal
    DUPLICATED     the target has it once more, at an offset that the map does not have
    FOREIGN        the link did not write it, and nobody else may write into the copy
    EXPECTED GAP   the journal tells of it, or the link begins behind it
    CLEANED        retention or compaction of the target took the copy
    LATE           the source has it behind what is mapped
    UNVERIFIED     the other side does not have it any more, or a rule of the link hides why

Where the target is compacted, a missing copy counts as CLEANED if a later copy has its key, or if
it was a tombstone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from local_cluster.records.batch import Record
from local_cluster.records.fingerprint import fingerprint_record
from mirror_maker.formats import OffsetMap
from mirror_maker.formats.verdicts import FAULTS, Verdict

FAULTS_KEPT_MAX: Final = 1_000
"""Faults of one partition that are kept with their records; all are counted."""
RECENT_MAX: Final = 10_000
"""Copies that are remembered, so that one that comes again is known as doubled."""
CLEANED_KEYS_MAX: Final = 1_000_000
"""Missing copies in a compacted target of which the key may still come; beyond, UNVERIFIED."""


class OffsetRanges(Protocol):
    """Ranges of offsets, as the journal tells them."""

    def contains(self, offset: int) -> bool:
        """Whether one of them has the offset."""
        ...


class CopiedRecord(NamedTuple):
    """A record of the target's log, and who wrote its batch."""

    record: Record
    producer_id: int


class RecordFault(NamedTuple):
    """A record about which something is wrong."""

    verdict: Verdict
    source_offset: int | None
    target_offset: int | None
    detail: str
    original: Record | None
    copy: Record | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRules:
    """What may differ between the logs."""

    producer_id: int
    """The link writes with this one."""
    is_shared: bool = False
    """Whether others may write into the copy."""
    is_compacted: bool = False
    """Whether the target may take copies by compaction."""
    leaves_out: str | None = None
    """Why the link may leave out records of which nothing tells; None: it copies every record."""
    is_rewritten: bool = False
    """Whether the target gives copies timestamps of its own."""
    is_transformed: bool = False
    """Whether copies rightly have other bytes."""


class RecordAudit:
    """One partition; `counts` and `faults` are the result."""

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
        """`lost` are the journal's source offsets, `foreign` its target offsets. Offsets [start,
        end) of the target's log can be read."""
        self.counts: dict[Verdict, int] = {}
        self.faults: list[RecordFault] = []
        self.unverified: dict[str, int] = {}
        """Records that were not compared, by the reason."""
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
        """Fingerprints of copies -> source offset, the newest last."""
        self._missing: dict[bytes | None, list[Record]] = {}
        """By key: originals whose copies a compacted target does not have."""
        self._missing_count = 0

    @property
    def has_faults(self) -> bool:
        """Whether something is wrong."""
        return any(verdict in FAULTS for verdict in self.counts)

    @property
    def wants_source(self) -> bool:
        """Whether nothing can be judged before more of the source comes."""
        return not self._originals and not self._is_source_ended

    @property
    def wants_target(self) -> bool:
        """Likewise, of the target."""
        return not self._copies and not self._is_target_ended

    def add_source(self, records: Iterable[Record]) -> None:
        """The next records of the source."""
        self._originals.extend(records)

    def add_target(self, records: Iterable[Record], producer_id: int) -> None:
        """The next records of the target, of one batch."""
        self._copies.extend(CopiedRecord(record, producer_id) for record in records)

    def trim_target(self, log_start: int) -> None:
        """The target's log begins there by now."""
        self._target_log_start = max(self._target_log_start, log_start)

    def end_source(self) -> None:
        """The source has no more."""
        self._is_source_ended = True

    def end_target(self) -> None:
        """The target has no more."""
        self._is_target_ended = True

    def judge(self) -> None:
        """Judge whatever can be judged by now."""
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
            is_ours = self._rules.is_transformed
            self._leave("the link's transforms change its records" if is_ours else
                        "the target gives records times of its own")  # fmt: skip
            return
        fingerprint = fingerprint_record(copy)
        self._remember(fingerprint, original.offset)
        if fingerprint == fingerprint_record(original):
            self._count(Verdict.COMPLETE)
            return
        detail = f"the copy of source offset {original.offset} holds {_difference(original, copy)}"
        self._fault(Verdict.ALTERED, detail, original, copy)

    def _judge_unmapped(self, copy: Record, producer_id: int) -> None:
        """A record of the target of which the map has no source offset."""
        offset_map, at = self._map, copy.offset
        is_ours = producer_id == self._rules.producer_id
        self._see_key(copy)
        if self._rules.is_shared and not is_ours:
            return  # a record of others
        if offset_map.hole_of(at) is not None:
            self._leave("the journal: copied, and the source does not have it any more")
        elif at < offset_map.target_start:
            self._leave("it lies before the copies that the map tells of")
        elif is_ours and at >= offset_map.target_next:
            self._leave("it is not mapped yet")
        elif self._foreign.contains(at):
            self._count(Verdict.EXPECTED_GAP)
        else:
            known = self._recent.get(fingerprint_record(copy))
            if known is not None:
                detail = f"the record of source offset {known} is there once more"
                self._fault(Verdict.DUPLICATED, detail, None, copy, source_offset=known)
            else:
                detail = f"producer {producer_id} wrote it, and the map does not have it"
                self._fault(Verdict.FOREIGN, detail, None, copy)

    def _judge_gone(self, copy: Record) -> None:
        """A mapped copy whose original the source does not show any more."""
        self._see_key(copy)
        self._remember(fingerprint_record(copy), self._map.source_of(copy.offset) or 0)
        self._leave("the source does not have it any more")

    def _judge_missing(self, original: Record) -> None:
        """A record of the source whose copy was not met."""
        offset_map, at = self._map, original.offset
        mapped = offset_map.next_mapped(at)
        if mapped is not None and mapped[0] == at:
            self._judge_missing_copy(original, mapped[1])
        elif at >= offset_map.source_next:
            self._count(Verdict.LATE)
        elif self._lost.contains(at) or at < offset_map.source_start:
            self._count(Verdict.EXPECTED_GAP)
        elif offset_map.translate(at).target_offset is None:
            self._count(Verdict.CLEANED)
        elif any(start <= at < end for start, end in offset_map.holes()):
            self._leave("the journal: some records of these source offsets were copied")
        elif self._rules.leaves_out is not None:
            self._leave(self._rules.leaves_out)
        else:
            detail = "it is in the source, and neither copied nor in the journal"
            self._fault(Verdict.LOST, detail, original, None)

    def _judge_missing_copy(self, original: Record, target_offset: int) -> None:
        if target_offset < self._target_log_start:
            self._count(Verdict.CLEANED)
        elif target_offset >= self._target_log_end:
            self._leave("it lies behind what can be read: another's transaction is open there")
        elif not self._rules.is_compacted:
            detail = f"the map has it at target offset {target_offset}, the log does not"
            self._fault(Verdict.LOST, detail, original, None, target_offset=target_offset)
        elif self._missing_count < CLEANED_KEYS_MAX:
            self._missing.setdefault(original.key, []).append(original)
            self._missing_count += 1
        else:
            self._leave("too many copies were compacted to follow all their keys")

    def _see_key(self, copy: Record) -> None:
        """A copy of this key is there: the missing ones before it were compacted."""
        if self._missing:
            cleaned = len(self._missing.pop(copy.key, ()))
            if cleaned:
                self._missing_count -= cleaned
                self._count(Verdict.CLEANED, cleaned)

    def _end_missing(self) -> None:
        for originals in self._missing.values():
            for original in originals:
                if original is originals[-1] and original.value is not None:
                    detail = "compaction took the copy, and no later copy has its key"
                    self._fault(Verdict.LOST, detail, original, None)
                else:
                    self._count(Verdict.CLEANED)
        self._missing = {}
        self._missing_count = 0

    def _remember(self, fingerprint: int, source_offset: int) -> None:
        self._recent[fingerprint] = source_offset
        if len(self._recent) > RECENT_MAX:
            del self._recent[next(iter(self._recent))]

    def _count(self, verdict: Verdict, count: int = 1) -> None:
        self.counts[verdict] = self.counts.get(verdict, 0) + count

    def _leave(self, reason: str) -> None:
        self._count(Verdict.UNVERIFIED)
        self.unverified[reason] = self.unverified.get(reason, 0) + 1

    def _fault(
        self,
        verdict: Verdict,
        detail: str,
        original: Record | None,
        copy: Record | None,
        *,
        source_offset: int | None = None,
        target_offset: int | None = None,
    ) -> None:
        self._count(verdict)
        if len(self.faults) < FAULTS_KEPT_MAX:
            self.faults.append(
                RecordFault(
                    verdict,
                    original.offset if original is not None else source_offset,
                    copy.offset if copy is not None else target_offset,
                    detail,
                    original,
                    copy,
                )
            )


def _difference(original: Record, copy: Record) -> str:
    names = ("timestamp_ms", "key", "value", "headers")
    others = [name for name in names if getattr(original, name) != getattr(copy, name)]
    return f"another {' and another '.join(others)}"
