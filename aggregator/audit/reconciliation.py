"""Reconciles both logs of a mirrored partition: lost, duplicated, foreign, reordered. Pure.

The inputs are (offset, fingerprint) of both logs, in log order. They are compared as multisets of
fingerprints, so legitimately equal records are counted and not confused:

    in the source more often than in the aggregate   the surplus is lost, or pending if its
                                                     offset is past the mirrored end
    in the aggregate more often than in the source   the surplus is duplicated
    in the aggregate only                            foreign
    equally often, but in another order              reordered, reported by aggregate offset

Guarantees: the counts are exact for every input. The reported offsets need the fewest faults
(`alignment`); among identical records any of them may be reported.
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
"""Most offset ranges in a sentence; the tuples have all offsets."""


class LogEntry(NamedTuple):
    """A record of a log, as the audit sees it."""

    offset: int
    fingerprint: int


class PartitionKey(NamedTuple):
    """The source of a mirrored partition."""

    datacenter: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciledPartition:
    """The result for one partition; offsets are ascending."""

    key: PartitionKey
    target_topic: str
    produced: int
    """Records in the source log."""
    mirrored: int
    """Source records that the aggregate has, in any order."""
    aggregate_records: int
    """Records in the aggregate's log, including faulty ones."""
    lost: tuple[int, ...] = ()
    """Source offsets that the aggregate should have and lacks."""
    pending: tuple[int, ...] = ()
    """Source offsets past the mirrored end."""
    duplicated: tuple[int, ...] = ()
    """Aggregate offsets of surplus copies."""
    foreign: tuple[int, ...] = ()
    """Aggregate offsets of records that the source lacks."""
    reordered: tuple[int, ...] = ()
    """Aggregate offsets of records that are not in the source's order."""
    order_is_exact: bool = True
    """False if too many identical records make `reordered` an upper bound."""

    @property
    def is_faultless(self) -> bool:
        """Whether no record is lost, duplicated, foreign or reordered; some may be pending."""
        return not (self.lost or self.duplicated or self.foreign or self.reordered)

    def faults(self) -> Iterator[str]:
        """Yield a sentence per kind of fault with datacenter, partition and offsets."""
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
    """The results of many partitions, and their sums."""

    partitions: tuple[ReconciledPartition, ...]

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
        """Whether no partition has a fault."""
        return all(part.is_faultless for part in self.partitions)

    def line(self) -> str:
        """Return the summary in one line; rare kinds are included only if they occur."""
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
        """Return every fault of every partition as a sentence."""
        return [sentence for part in self.partitions for sentence in part.faults()]


def reconcile(
    key: PartitionKey,
    target_topic: str,
    source: Sequence[tuple[int, int]],
    aggregate: Sequence[tuple[int, int]],
    *,
    mirrored_end: int | None = None,
) -> ReconciledPartition:
    """Compare both logs of a partition, each a sequence of (offset, fingerprint) in log order.

    `mirrored_end` is the end of the source offsets that the mirror has copied: records missing from
    there on are pending. None means that the mirror is done, so every missing record is lost.
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
    return ReconciledPartition(
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
    """Return `offset 7`, `offsets 7, 9` or `offsets 7-99, 120`, with at most some ranges."""
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
