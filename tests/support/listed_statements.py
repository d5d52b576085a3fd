"""Statements of completeness with a listing beside them, which proves that nothing else exists."""

from __future__ import annotations

from mirror_maker.formats.completeness.cut import CutReader
from mirror_maker.formats.completeness.listing import (
    LISTED_NODE,
    ListedTopic,
    Listing,
    listed_ms,
    listing_part,
    listing_statements,
)
from mirror_maker.formats.completeness.replayed_topic import CompletenessTopic
from mirror_maker.formats.completeness.statement import SourceSession, Statement


def with_listing(
    statement: Statement, *topics: ListedTopic, asked_ms: int | None = None
) -> list[Statement]:
    """Return what a worker writes in this round: before a vector, a listing of these topics.

    The listing is from `asked_ms`, or from when the statement was written.
    """
    if listing_part(statement) is not None or listed_ms(statement) is not None:
        return [statement]
    listing = Listing(statement.written_ms if asked_ms is None else asked_ms, topics)
    proved = statement._replace(
        sessions=(*statement.sessions, SourceSession(LISTED_NODE, listing.asked_ms))
    )
    if not (statement.is_vector and statement.part == 0):
        return [proved]
    before = listing_statements(
        listing,
        worker_id=statement.worker_id,
        run=statement.run,
        round_number=statement.round,
        written_ms=statement.written_ms,
    )
    return [*before, proved]


class ProvedTopic(CompletenessTopic):
    """A completeness topic with statements that listings prove."""

    def apply(self, statement: Statement) -> None:
        for each in with_listing(statement):
            super().apply(each)


class ProvedCutReader(CutReader):
    """A reader of a cut from such a topic."""

    def apply(self, statement: Statement) -> None:
        for each in with_listing(statement):
            super().apply(each)
