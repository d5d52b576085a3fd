"""One copy of a merged topic: until when it is complete, and what holds it back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirror_maker.formats.completeness.replayed_topic import PartitionCompleteness
from mirror_maker.formats.completeness.statement import HoldKind

SILENT_MS: Final = 10_000
"""Without news for this long, a source or a worker is named as the cause."""


class CompletenessState(StrEnum):
    """How complete an answer is through its time."""

    COMPLETE = "complete"
    WITH_GAPS = "complete_with_gaps"
    """Some records were left out, and the journal names them."""
    UNKNOWN = "unknown"
    """There is no such time."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """What keeps a copy from being complete through a later time."""

    link: str
    datacenter: str
    topic: str
    partition: int | None
    """None if no partition is known."""
    reason: str
    since_ms: int | None
    """By the clock of the mirror worker; None if unknown."""


@dataclass(frozen=True, slots=True)
class PartCompleteness:
    """The copy of one source topic by one link."""

    link: str
    datacenter: str
    source_topic: str
    target_topic: str
    complete_through_ms: int | None
    """The least time over its partitions; None if that of one is unknown."""
    state: CompletenessState
    gaps: int
    """Entries of the journal."""
    held_back: HeldBack | None
    """The partition with the least time; None if nothing but the next response is due."""
    partitions: tuple[PartitionCompleteness, ...]
    is_absent: bool = False
    """Whether the source has no such topic, as its mirror listed last. It may have one since."""


def absent_part(
    *,
    link: str,
    datacenter: str,
    source_topic: str,
    target_topic: str,
    listed_ms: int | None,
    now_ms: int,
) -> PartCompleteness:
    """Return how long a source surely had no such topic: nothing was to be copied until then."""
    reason = _why_unlisted(listed_ms, now_ms)
    return PartCompleteness(
        link=link,
        datacenter=datacenter,
        source_topic=source_topic,
        target_topic=target_topic,
        complete_through_ms=listed_ms,
        state=state_of(listed_ms, 0),
        gaps=0,
        held_back=(
            None
            if reason is None
            else HeldBack(link, datacenter, source_topic, None, reason, listed_ms)
        ),
        partitions=(),
        is_absent=True,
    )


def part_completeness(
    *,
    link: str,
    datacenter: str,
    source_topic: str,
    target_topic: str,
    partitions_count: int | None,
    known: Mapping[int, PartitionCompleteness],
    now_ms: int,
) -> PartCompleteness:
    """Return the completeness of a copy with so many partitions; None: those that are known.

    `known` has what its mirror states, by partition. One that it states nothing of is unknown.
    """
    expected = set(known) | set(range(partitions_count or 0))
    missing = sorted(expected - known.keys())
    found = [known[index] for index in sorted(known)]

    def held_back(partition: int | None, reason: str, since_ms: int | None) -> HeldBack:
        return HeldBack(link, datacenter, source_topic, partition, reason, since_ms)

    through_ms, holder = None, None
    if missing or not found:
        reason = "its mirror has stated nothing about it"
        holder = held_back(missing[0] if missing else None, reason, None)
    else:
        worst = min(found, key=_through_or_never)
        through_ms = worst.complete_through_ms
        reason_of_worst = why_held_back(worst, now_ms)
        if through_ms is None or reason_of_worst is not None:
            since_ms = worst.hold.since_ms or through_ms
            reason = reason_of_worst or "the end of its source is not proved yet"
            holder = held_back(worst.partition, reason, since_ms)
    gaps = sum(each.gaps for each in found)
    return PartCompleteness(
        link=link,
        datacenter=datacenter,
        source_topic=source_topic,
        target_topic=target_topic,
        complete_through_ms=through_ms,
        state=state_of(through_ms, gaps),
        gaps=gaps,
        held_back=holder,
        partitions=tuple(found),
    )


def state_of(through_ms: int | None, gaps: int) -> CompletenessState:
    """Return the state of an answer."""
    if through_ms is None:
        return CompletenessState.UNKNOWN
    return CompletenessState.WITH_GAPS if gaps else CompletenessState.COMPLETE


def why_held_back(found: PartitionCompleteness, now_ms: int) -> str | None:
    """Return what keeps a partition back, in words; None if only the next response is due."""
    if found.hold.kind is HoldKind.STOPPED:
        return f"its mirror has stopped it: {found.hold.state}"
    if found.written_ms < now_ms - SILENT_MS:
        return f"its mirror worker {found.worker_id} has not reported since"
    if found.hold.kind is HoldKind.OPEN_TRANSACTION:
        producer = found.hold.producer_id
        return "an open transaction" + (f" of producer id {producer}" if producer >= 0 else "")
    unlisted = _why_unlisted(found.listed_ms, now_ms)
    if found.listed_ms is None or (
        unlisted is not None and (found.sampled_ms or 0) >= now_ms - SILENT_MS
    ):
        return unlisted
    if not found.is_stated:
        return "its source has it, and no mirror worker has stated anything about it yet"
    if found.sampled_ms is None:
        return "the end of its source is not proved yet"
    if found.sampled_ms < now_ms - SILENT_MS:
        return "its source has not answered since"
    if found.end is not None and found.position < found.end:
        return f"{found.end - found.position} offsets are not copied yet"
    return None


def _why_unlisted(listed_ms: int | None, now_ms: int) -> str | None:
    """Return why later records may be in partitions that are not known, in words."""
    if listed_ms is None:
        return (
            "its mirror does not state which partitions its source has: "
            "all of its workers are of an older version"
        )
    if listed_ms < now_ms - SILENT_MS:
        return "its mirror has not listed the topics and partitions of its source since"
    return None


def by_topic(
    partitions: Iterable[PartitionCompleteness],
) -> dict[str, dict[int, PartitionCompleteness]]:
    """Return what a link's topic states, by source topic and partition."""
    found: dict[str, dict[int, PartitionCompleteness]] = {}
    for each in partitions:
        found.setdefault(each.topic, {})[each.partition] = each
    return found


def _through_or_never(found: PartitionCompleteness) -> int:
    return -1 if found.complete_through_ms is None else found.complete_through_ms
