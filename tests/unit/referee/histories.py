"""Histories of one flow for the checkers' tests: a clean one, and ways to spoil it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.referee.checks.flow_truth import Evidence, FlowTruth
from tests.referee.history import (
    Content,
    EntryKind,
    Fate,
    Flow,
    JournalEntry,
    Log,
    Logged,
    Partition,
    Written,
)

SOURCE = Partition("a", "orders", 0)
TARGET = Partition("hub", "a.orders", 0)
FLOW = Flow("a-hub", SOURCE, TARGET)


def content(identity: str, *, key: bytes | None = None, tombstone: bool = False) -> Content:
    """What a record of this identity is."""
    value = None if tombstone else f"{identity}|".encode()
    return Content(key, value, (("h", identity.encode()),), 1_000)


@dataclass
class History:
    """The logs of a flow and what its producers were told; by default nothing was written."""

    written: list[Written] = field(default_factory=list)
    source: list[Logged] = field(default_factory=list)
    target: list[Logged] = field(default_factory=list)
    journal: list[JournalEntry] = field(default_factory=list)
    source_start: int = 0
    source_end: int = 0
    target_start: int = 0
    target_end: int = 0
    source_compacts: bool = False
    target_compacts: bool = False
    target_deleted_to: int = 0
    generation: int = 0
    stands_still: bool = False

    def write(
        self,
        identity: str,
        *,
        fate: Fate = Fate.READABLE,
        key: bytes | None = None,
        tombstone: bool = False,
        skip: int = 0,
        told: bool = True,
    ) -> None:
        """Append a record to the source, `skip` offsets behind its end.

        It is readable there unless its fate is NEVER; `told` says whether its offset is known.
        """
        offset = self.source_end + skip
        self.source_end = offset + 1
        made = content(identity, key=key, tombstone=tombstone)
        place = offset if told else None
        self.written.append(Written(identity, SOURCE, self.generation, made, fate, place))
        if fate is not Fate.NEVER:
            self.source.append(Logged(offset, identity, made))

    def copy(self, identity: str, *, skip: int = 0) -> None:
        """Append a copy of a record to the target, `skip` offsets behind its end."""
        made = next(each.content for each in self.written if each.identity == identity)
        self.put(identity, made, skip=skip)

    def put(self, identity: str | None, made: Content, *, skip: int = 0) -> None:
        """Append any record to the target."""
        offset = self.target_end + skip
        self.target_end = offset + 1
        self.target.append(Logged(offset, identity, made))

    def forget_at_source(self, *identities: str) -> None:
        """Take records from the source log."""
        self.source = [each for each in self.source if each.identity not in identities]

    def delete_before(self, offset: int) -> None:
        """Let the source log begin at an offset."""
        self.source = [each for each in self.source if each.offset >= offset]
        self.source_start = offset

    def forget_at_target(self, *identities: str) -> None:
        """Take records from the target log."""
        self.target = [each for each in self.target if each.identity not in identities]

    def recreate(self) -> None:
        """Delete the source topic, and create it again."""
        self.source, self.source_start, self.source_end = [], 0, 0
        self.generation += 1

    def tell(
        self,
        source_from: int,
        source_to: int | None,
        *,
        reason: str = "out_of_range",
        count: int | None = None,
        target_offset: int | None = None,
        target_to: int | None = None,
        kind: EntryKind = EntryKind.LOST,
    ) -> None:
        """Write a journal entry, by default placed at the present end of the target."""
        at = self.target_end if target_offset is None else target_offset
        self.journal.append(
            JournalEntry(
                kind=kind,
                link=FLOW.link,
                topic=SOURCE.topic,
                partition=SOURCE.number,
                source_from=source_from,
                source_to=source_to,
                records_count=count if kind is EntryKind.LOST else None,
                reason=reason,
                target_topic=TARGET.topic,
                target_offset=at,
                target_to=target_to,
                copied_count=count if kind is EntryKind.COPIED else None,
                noticed_at_ms=len(self.journal),
            )
        )

    def truth(self) -> FlowTruth:
        """All of it, put together."""
        return FlowTruth(
            Evidence(
                flow=FLOW,
                written=self.written,
                source=self.source_log(),
                target=self.target_log(),
                generation=self.generation,
                journal=self.journal,
                source_compacts=self.source_compacts,
                target_compacts=self.target_compacts,
                target_deleted_to=self.target_deleted_to,
                stands_still=self.stands_still,
            )
        )

    def source_log(self) -> Log:
        """The final source log."""
        return Log(SOURCE, self.source_start, self.source_end, tuple(self.source))

    def target_log(self) -> Log:
        """The final target log."""
        return Log(TARGET, self.target_start, self.target_end, tuple(self.target))


def names(count: int) -> list[str]:
    """Identities of some records."""
    return [f"a.w.{number}" for number in range(count)]


def clean(count: int = 6) -> History:
    """Some records, and the copy of each."""
    history = History()
    write_all(history, names(count))
    copy_all(history, names(count))
    return history


def write_all(history: History, identities: Iterable[str]) -> None:
    """Write records to the source."""
    for identity in identities:
        history.write(identity)


def copy_all(history: History, identities: Iterable[str]) -> None:
    """Copy records to the target."""
    for identity in identities:
        history.copy(identity)


def alter(records: Sequence[Logged], at: int, **changes: object) -> list[Logged]:
    """Records of which one has another content."""
    changed = list(records)
    changed[at] = changed[at]._replace(content=changed[at].content._replace(**changes))  # type: ignore[arg-type]
    return changed
