"""Which topics and partitions a source had at a time, as its mirror's workers state it. Pure.

A *listing* is what a Metadata response named: the topics that the link copies, and how many
partitions each had. Its time is the worker's wall clock when it wrote the request. Every partition
that had a record before that time is in it.

A listing is written before each vector, and whenever it differs from the one before. It lies in the
completeness topic, in the bytes of a statement (`statement.py`):

- its kind is `changes`, and its run is the worker's run with the highest bit flipped. Such a run
  has no vector, so versions that do not know listings skip it;
- `round` is the round of the statement that follows it. Many topics are split into `parts`;
- it has one session, of node `LISTING_NODE`, whose time is that of the listing;
- per topic there is one entry. `partition` has the number of partitions, `position` the first one
  of those that were added last. These did not exist at `complete_through`, which may be absent.

Each statement of the worker then has the time of its newest listing with the same content: as the
last session, of node `LISTED_NODE`. No entry follows it, so older versions ignore it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mirror_maker.formats.completeness.statement import (
    NO_HOLD,
    Entry,
    SourceSession,
    Statement,
)
from mirror_maker.formats.fields import MapFormatError

LISTED_NODE: Final = 1 << 31
"""Above every broker's id."""
LISTING_NODE: Final = LISTED_NODE + 1
TOPICS_PER_RECORD_MAX: Final = 4_000
PARTITIONS_MAX: Final = 1_000_000
"""Of all topics of one record. One with more is damaged."""
_RUN_BIT: Final = 1 << 63


class ListedTopic(NamedTuple):
    """One topic of a source."""

    name: str
    topic_id: uuid.UUID
    partitions_count: int
    added_from: int
    """First partition of those that were added last; `partitions_count` if none is known."""
    absent_ms: int | None
    """The partitions from `added_from` on did not exist at this time."""


class Listing(NamedTuple):
    """What a source had, by one request."""

    asked_ms: int
    topics: Sequence[ListedTopic]
    """By name. The same object as long as nothing changes."""


class ListingPart(NamedTuple):
    """One record of a listing."""

    worker_id: str
    run: int
    """The worker's run, as its statements have it."""
    round: int
    part: int
    parts: int
    written_ms: int
    topics: tuple[ListedTopic, ...]


def listing_statements(
    listing: Listing, *, worker_id: str, run: int, round_number: int, written_ms: int
) -> Iterator[Statement]:
    """Yield the records of a listing."""
    starts = range(0, max(1, len(listing.topics)), TOPICS_PER_RECORD_MAX)
    for part, start in enumerate(starts):
        yield Statement(
            is_vector=False,
            worker_id=worker_id,
            run=run ^ _RUN_BIT,
            round=round_number,
            part=part,
            parts=len(starts),
            written_ms=written_ms,
            sessions=(SourceSession(LISTING_NODE, listing.asked_ms),),
            entries=tuple(map(_entry, listing.topics[start : start + TOPICS_PER_RECORD_MAX])),
        )


def listing_part(statement: Statement) -> ListingPart | None:
    """Return what a record says of a listing; None if it is none. Raises MapFormatError."""
    if not statement.sessions or statement.sessions[-1].node_id != LISTING_NODE:
        return None
    partitions_count = sum(each.partition for each in statement.entries)
    if partitions_count > PARTITIONS_MAX:
        raise MapFormatError(f"a listing with {partitions_count} partitions in one record")
    return ListingPart(
        worker_id=statement.worker_id,
        run=statement.run ^ _RUN_BIT,
        round=statement.round,
        part=statement.part,
        parts=statement.parts,
        written_ms=statement.written_ms,
        topics=tuple(
            ListedTopic(
                each.topic, each.topic_id, each.partition, each.position, each.complete_through_ms
            )
            for each in statement.entries
        ),
    )


def listed_ms(statement: Statement) -> int | None:
    """Return the time of the worker's newest listing; None if the worker knows no listings."""
    if not statement.sessions or statement.sessions[-1].node_id != LISTED_NODE:
        return None
    return statement.sessions[-1].asked_ms


def _entry(topic: ListedTopic) -> Entry:
    return Entry(
        topic=topic.name,
        topic_id=topic.topic_id,
        partition=topic.partitions_count,
        generation=0,
        position=topic.added_from,
        session=None,
        epoch=-1,
        sampled_ms=None,
        end=None,
        complete_through_ms=topic.absent_ms,
        proved_through_ms=None,
        gaps=0,
        hold=NO_HOLD,
    )
