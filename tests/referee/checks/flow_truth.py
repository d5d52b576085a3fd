"""Which record of a source partition lies where on both sides: the ground of all checks. Pure.

It follows from the delivery reports, the two final logs and the journal alone. Names:

    original    a record of the source partition whose source offset is known
    copy        a record of the target log that was born in this source partition
    generation  how often the source topic was deleted and re-created before

A producer that gives up may write a record twice (`check_source` says so where it is not allowed).
Both are originals then, and the first copy is that of the first.

A record may be absent from the target for a documented reason (`Excuse`); every other absence is
a loss.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from tests.referee.history import Content, EntryKind, Fate, Flow, JournalEntry, Log, Logged, Written

_Place = tuple[float, float]
"""Generation and source offset."""
_BEFORE_ALL: _Place = (-1, -1)
_BEHIND_ALL: _Place = (math.inf, math.inf)
RECREATED = "recreated"
"""The reason of the journal entry with which a link begins the next generation."""


class Original(NamedTuple):
    """A record of the source partition whose source offset is known."""

    generation: int
    offset: int
    written: Written
    is_readable: bool
    """Whether it surely was in the source log and readable."""
    is_in_log: bool
    """Whether the final source log still has it."""

    @property
    def identity(self) -> str:
        return self.written.identity

    @property
    def is_tombstone(self) -> bool:
        return self.written.content.value is None


class Copy(NamedTuple):
    """A record of the target log that was born in the source partition."""

    offset: int
    """On the target."""
    written: Written
    content: Content
    """As read from the target."""
    original: Original | None
    """None where no client was told its source offset."""


class Excuse(StrEnum):
    """Why an original may be absent from the target."""

    TOLD = "told as lost"
    """The journal says so."""
    CLEANED_AT_SOURCE = "cleaned at source"
    """Compaction took it from the source, so it may never have been there to be copied."""
    CLEANED_AT_TARGET = "cleaned at target"
    """Compaction may have taken its copy."""
    TRIMMED_AT_TARGET = "trimmed at target"
    """The target's log begins behind the place of its copy."""
    NOT_YET = "the mirror says so"
    """It follows the last copy, and the mirror says that the partition is stopped."""


@dataclass(frozen=True)
class Evidence:
    """All that is known about one flow."""

    flow: Flow
    written: Sequence[Written]
    """Everything that producers sent to the source partition."""
    source: Log
    target: Log
    generation: int = 0
    """Of the final source log: how often the topic was deleted and re-created."""
    journal: Sequence[JournalEntry] = ()
    """Entries of this flow's source partition."""
    source_compacts: bool = False
    target_compacts: bool = False
    target_deleted_to: int = 0
    """The log start of the target that an acknowledged DeleteRecords has set.

    The final log may begin lower: Apache Kafka writes log starts down once a minute. A broker that
    is killed before comes back with the records."""
    stands_still: bool = False
    """Whether the mirror says in the end that it has not copied all (which is a finding of its
    own): what follows the last copy is not held against it again."""


class FlowTruth:
    """The evidence of a flow, put together."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.flow = evidence.flow
        self.written: Mapping[str, Written] = {each.identity: each for each in evidence.written}
        self.generation = evidence.generation
        found = _originals(evidence, self.generation)
        self.originals = tuple(sorted(found, key=_place))
        self._by_identity: dict[str, list[Original]] = {}
        for each in self.originals:
            self._by_identity.setdefault(each.identity, []).append(each)
        self.copies = tuple(self._copies())
        self._copied = frozenset(
            _place(copy.original) for copy in self.copies if copy.original is not None
        )
        self.entries = tuple(_with_generations(evidence.journal))

    def originals_of(self, identity: str) -> Sequence[Original]:
        """The originals of an identity; none where no offset is known, two where it was written
        twice."""
        return self._by_identity.get(identity, ())

    def is_copied(self, original: Original) -> bool:
        """Whether the copy of an original is on the target."""
        return _place(original) in self._copied

    def excuse(self, original: Original) -> Excuse | None:
        """Why an original that is not on the target may be absent."""
        told = any(
            generation == original.generation
            and entry.kind is EntryKind.LOST
            and entry.spans(original.offset)
            for entry, generation in self.entries
        )
        if told:
            return Excuse.TOLD
        evidence = self.evidence
        may_be_cleaned = self.may_be_cleaned(original)
        if evidence.source_compacts and may_be_cleaned and not original.is_in_log:
            return Excuse.CLEANED_AT_SOURCE
        if evidence.target_compacts and may_be_cleaned and not self._hides_an_older_value(original):
            return Excuse.CLEANED_AT_TARGET
        if evidence.target.start_offset > 0 and self._is_before_all_copies(original):
            return Excuse.TRIMMED_AT_TARGET
        if evidence.stands_still and self._is_behind_all_copies(original):
            return Excuse.NOT_YET
        return None

    def may_be_cleaned(self, original: Original) -> bool:
        """Whether compaction of a log that has all originals may take this one."""
        return original.is_tombstone or self._is_superseded(original)

    @cached_property
    def current_holes(self) -> tuple[JournalEntry, ...]:
        """Entries of the last generation that say that places are not known exactly."""
        return tuple(
            entry
            for entry, generation in self.entries
            if generation == self.generation and entry.kind is EntryKind.COPIED
        )

    @cached_property
    def current_copies(self) -> tuple[tuple[int, int], ...]:
        """(source offset, target offset) of the copies of the last generation, by source offset;
        of an original that was copied twice the first copy counts."""
        first: dict[int, int] = {}
        for copy in self.copies:
            if copy.original is not None and copy.original.generation == self.generation:
                first.setdefault(copy.original.offset, copy.offset)
        return tuple(sorted(first.items()))

    @cached_property
    def older_end(self) -> int:
        """The target offset behind the last copy of an older generation; 0 without one."""
        older = (copy.offset for copy in self.copies if copy.written.generation < self.generation)
        return max(older, default=-1) + 1

    @cached_property
    def uncertain_sources(self) -> tuple[int, ...]:
        """Source offsets of the last generation that may have been copied, with the copy gone by
        now, ascending."""
        may_be_gone = {Excuse.CLEANED_AT_TARGET, Excuse.TRIMMED_AT_TARGET}
        if self.evidence.target_compacts:
            may_be_gone.add(Excuse.CLEANED_AT_SOURCE)
        return tuple(
            original.offset
            for original in self.originals
            if original.generation == self.generation
            and not self.is_copied(original)
            and self.excuse(original) in may_be_gone
        )

    @cached_property
    def unplaced_copies(self) -> tuple[int, ...]:
        """Target offsets of copies whose source offset no client was told, ascending."""
        return tuple(copy.offset for copy in self.copies if copy.original is None)

    def _copies(self) -> Iterable[Copy]:
        seen: Counter[str] = Counter()
        for record in self.evidence.target.records:
            written = self.written.get(record.identity or "")
            if written is not None:
                originals = self.originals_of(written.identity)
                number = min(seen[written.identity], len(originals) - 1)
                original = originals[number] if originals else None
                seen[written.identity] += 1
                yield Copy(record.offset, written, record.content, original)

    @cached_property
    def _last_of_key(self) -> Mapping[tuple[int, bytes | None], int]:
        last: dict[tuple[int, bytes | None], int] = {}
        for original in self.originals:  # ascending
            last[original.generation, original.written.content.key] = original.offset
        return last

    @cached_property
    def _unplaced_keys(self) -> frozenset[bytes | None]:
        """Keys of records that may have been written anywhere."""
        return frozenset(
            each.content.key
            for each in self.evidence.written
            if each.fate is not Fate.NEVER and each.identity not in self._by_identity
        )

    def _is_superseded(self, original: Original) -> bool:
        """Whether a record of the same key follows, or may follow, at the source."""
        key = original.written.content.key
        last = self._last_of_key[original.generation, key]
        return last > original.offset or key in self._unplaced_keys

    @cached_property
    def _oldest_copy_of_key(self) -> Mapping[bytes | None, int]:
        oldest: dict[bytes | None, int] = {}
        for copy in self.copies:
            if copy.original is not None and copy.original.generation == self.generation:
                offset = copy.original.offset
                key = copy.written.content.key
                oldest[key] = min(offset, oldest.get(key, offset))
        return oldest

    def _hides_an_older_value(self, original: Original) -> bool:
        """Whether this is its key's last tombstone, and the target still has an older record.

        Then compaction of the target cannot have taken the tombstone's copy.
        """
        key = original.written.content.key
        if self._is_superseded(original) or not original.is_in_log:
            return False
        return self._oldest_copy_of_key.get(key, original.offset) < original.offset

    def _is_before_all_copies(self, original: Original) -> bool:
        return _place(original) < self._copied_range[0]

    def _is_behind_all_copies(self, original: Original) -> bool:
        return _place(original) > self._copied_range[1]

    @cached_property
    def _copied_range(self) -> tuple[_Place, _Place]:
        """The places of the first and the last original that is copied."""
        if not self._copied:
            return _BEHIND_ALL, _BEFORE_ALL
        return min(self._copied), max(self._copied)


def _place(original: Original) -> _Place:
    return original.generation, original.offset


def _originals(evidence: Evidence, last_generation: int) -> Iterable[Original]:
    in_log: dict[str, list[Logged]] = {}
    for record in evidence.source.records:
        if record.identity is not None:
            in_log.setdefault(record.identity, []).append(record)
    for each in evidence.written:
        logged = in_log.get(each.identity, ()) if each.generation == last_generation else ()
        for record in logged:
            yield Original(each.generation, record.offset, each, True, True)
        if logged:
            continue
        if each.offset is not None and each.fate is not Fate.NEVER:
            yield Original(
                each.generation, each.offset, each, each.fate is Fate.READABLE, is_in_log=False
            )


def _with_generations(journal: Sequence[JournalEntry]) -> Iterable[tuple[JournalEntry, int]]:
    """Each entry with the generation that it is about: one ends at each entry `recreated`."""
    generation = 0
    for entry in sorted(journal, key=lambda each: (each.noticed_at_ms, each.target_offset)):
        yield entry, generation
        generation += entry.kind is EntryKind.LOST and entry.reason == RECREATED


def is_between(ascending: Sequence[int], low: int, high: int) -> bool:
    """Whether any of the ascending numbers lies in [low, high)."""
    at = bisect_left(ascending, low)
    return at < len(ascending) and ascending[at] < high
