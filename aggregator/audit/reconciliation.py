"""Exact audit of one mirrored partition: what is lost, doubled, foreign or out of order.

Input is the sequence of (offset, fingerprint) of both logs, in log order. The two are taken as
multisets of fingerprints, so records that are legitimately equal are counted, not confused:

    in the source more often than in the aggregate   the surplus is lost, or pending where its
                                                     offset lies past the mirrored end
    in the aggregate more often than in the source   the surplus is duplicated
    in the aggregate only                            foreign
    equally often, but not in the same order         reordered, named by aggregate offset

Guarantees: the counts are exact for every input. Offsets name the one fault that needs the
smallest explanation (`alignment`); between identical records any of them may be named.
Invariants (asserted): produced = matched + lost + pending; aggregate = matched + duplicated +
foreign.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from aggregator.audit.alignment import align

OFFSETS_NAMED_MAX: Final = 10
"""How many offsets of one kind of fault a sentence spells out; the tuples hold all of them."""


class LogEntry(NamedTuple):
    """One record of a log, as the audit sees it."""

    offset: int
    fingerprint: int


class PartitionKey(NamedTuple):
    """Where a mirrored partition comes from."""

    datacenter: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAudit:
    """Result for one partition; every offset tuple is ascending."""

    key: PartitionKey
    target_topic: str
    produced: int
    """Records in the source log."""
    mirrored: int
    """Source records that the aggregate holds, in whatever order."""
    aggregate_records: int
    """Records in the aggregate's log, faults included."""
    lost: tuple[int, ...] = ()
    """Source offsets that should be in the aggregate and are not."""
    pending: tuple[int, ...] = ()
    """Source offsets past the mirrored end that are not there yet."""
    duplicated: tuple[int, ...] = ()
    """Aggregate offsets of surplus copies."""
    foreign: tuple[int, ...] = ()
    """Aggregate offsets of records that the source does not hold."""
    reordered: tuple[int, ...] = ()
    """Aggregate offsets of source records that stand out of the source's order."""
    order_is_exact: bool = True
    """False where too many identical records make `reordered` an upper bound."""

    @property
    def is_faultless(self) -> bool:
        """No record lost, doubled, foreign or out of order; some may be pending."""
        return not (self.lost or self.duplicated or self.foreign or self.reordered)

    def faults(self) -> Iterator[str]:
        """One sentence per kind of fault, naming datacenter, partition and offsets."""
        source = f"{self.key.datacenter}: {self.key.topic}-{self.key.partition}"
        target = f"{self.target_topic}-{self.key.partition}"
        for offsets, kind, side in (
            (self.lost, "lost", "source"),
            (self.duplicated, "duplicated", "aggregate"),
            (self.foreign, "foreign", "aggregate"),
            (self.reordered, "reordered", "aggregate"),
        ):
            if offsets:
                where = f" of {target}" if side == "aggregate" else ""
                yield f"{source}: {len(offsets)} {kind}, {side} {_name_offsets(offsets)}{where}"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Results of many partitions, and their sums."""

    partitions: tuple[PartitionAudit, ...]

    @property
    def produced(self) -> int:
        return sum(part.produced for part in self.partitions)

    @property
    def mirrored(self) -> int:
        return sum(part.mirrored for part in self.partitions)

    @property
    def lost(self) -> int:
        return sum(len(part.lost) for part in self.partitions)

    @property
    def pending(self) -> int:
        return sum(len(part.pending) for part in self.partitions)

    @property
    def duplicated(self) -> int:
        return sum(len(part.duplicated) for part in self.partitions)

    @property
    def foreign(self) -> int:
        return sum(len(part.foreign) for part in self.partitions)

    @property
    def reordered(self) -> int:
        return sum(len(part.reordered) for part in self.partitions)

    @property
    def is_faultless(self) -> bool:
        """Whether no partition has a fault; an empty report has none."""
        return all(part.is_faultless for part in self.partitions)

    def line(self) -> str:
        """The one-line verdict; what is rarely seen is only mentioned when it is there."""
        parts = [
            f"{self.produced} produced",
            f"{self.mirrored} mirrored",
            f"{self.lost} lost",
            f"{self.duplicated} duplicated",
        ]
        for count, kind in (
            (self.pending, "pending"),
            (self.foreign, "foreign"),
            (self.reordered, "reordered"),
        ):
            if count:
                parts.append(f"{count} {kind}")
        return "audit: " + ", ".join(parts)

    def faults(self) -> list[str]:
        """Every fault of every partition, as sentences."""
        return [sentence for part in self.partitions for sentence in part.faults()]


def reconcile(
    key: PartitionKey,
    target_topic: str,
    source: Sequence[tuple[int, int]],
    aggregate: Sequence[tuple[int, int]],
    *,
    mirrored_end: int | None = None,
) -> PartitionAudit:
    """Compare both logs of a partition, each a sequence of (offset, fingerprint) in log order.

    `mirrored_end` is the source offset up to which the mirror says it has copied: what is missing
    from there on is pending. None says that the mirror is done, so that everything missing is lost.
    """
    _assert_ascending(source)
    _assert_ascending(aggregate)
    pairs, is_longest = align([entry[1] for entry in source], [entry[1] for entry in aggregate])
    matched_source = {pair[0] for pair in pairs}
    matched_aggregate = {pair[1] for pair in pairs}
    known = {fingerprint for _, fingerprint in source}

    spare_source: dict[int, list[int]] = defaultdict(list)
    for index, (offset, fingerprint) in enumerate(source):
        if index not in matched_source:
            spare_source[fingerprint].append(offset)
    duplicated, foreign, reordered = [], [], []
    taken: dict[int, int] = defaultdict(int)
    for index, (offset, fingerprint) in enumerate(aggregate):
        if index in matched_aggregate:
            continue
        if fingerprint not in known:
            foreign.append(offset)
        elif taken[fingerprint] < len(spare_source.get(fingerprint, ())):
            taken[fingerprint] += 1
            reordered.append(offset)
        else:
            duplicated.append(offset)

    missing = sorted(
        offset
        for fingerprint, offsets in spare_source.items()
        for offset in offsets[taken.get(fingerprint, 0) :]
    )
    is_done = mirrored_end is None
    lost = tuple(offset for offset in missing if is_done or offset < (mirrored_end or 0))
    pending = tuple(missing[len(lost) :])
    matched = len(pairs) + len(reordered)
    assert len(source) == matched + len(lost) + len(pending)
    assert len(aggregate) == matched + len(duplicated) + len(foreign)
    return PartitionAudit(
        key=key,
        target_topic=target_topic,
        produced=len(source),
        mirrored=matched,
        aggregate_records=len(aggregate),
        lost=lost,
        pending=pending,
        duplicated=tuple(duplicated),
        foreign=tuple(foreign),
        reordered=tuple(reordered),
        order_is_exact=is_longest or not reordered,
    )


def _assert_ascending(entries: Sequence[tuple[int, int]]) -> None:
    for earlier, later in pairwise(entries):
        if earlier[0] >= later[0]:
            raise ValueError(f"offset {later[0]} follows {earlier[0]}: not in log order")


def _name_offsets(offsets: Sequence[int]) -> str:
    """`offset 7`, `offsets 7, 9`, or `offsets 7-99, 120`: ranges, cut after some of them."""
    ranges: list[tuple[int, int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1] = (ranges[-1][0], offset)
        else:
            ranges.append((offset, offset))
    named = [
        str(first) if first == last else f"{first}-{last}"
        for first, last in ranges[:OFFSETS_NAMED_MAX]
    ]
    if len(ranges) > OFFSETS_NAMED_MAX:
        named.append(f"... ({len(ranges) - OFFSETS_NAMED_MAX} more ranges)")
    return ("offset " if len(offsets) == 1 else "offsets ") + ", ".join(named)
