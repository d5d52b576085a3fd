"""What a table and its snapshots say about their records. Pure.

Properties of the table; a commit replaces them together with the rows:

    heliograph.view              the view that the table keeps
    heliograph.writer-epoch      how many writers have taken the table over
    heliograph.writer            which run has the epoch
    heliograph.positions         the next aggregate offset per partition, as `StreamPositions`
    heliograph.complete-through  {"JFK": {"through": time, "proved": time, "gaps": 0, "links": []}}
    heliograph.query             Spark's id of the query whose batches the table has
    heliograph.batch             the number of its newest batch
    heliograph.upsert            key or datacenter-key, in a table of the latest records only
    heliograph.upsert-buckets    the number of its buckets

Properties of a snapshot, in its summary:

    heliograph.kind              takeover, batch, state, move or compaction
    heliograph.writer-epoch      the epoch of the writer
    heliograph.aggregate-offsets {"jfk.flights": {"0": [start, end]}}, what the snapshot adds
    heliograph.source-offsets    [{"datacenter", "topic", "partition", "first", "end", "records"}]
    heliograph.complete-through  as in the table
    heliograph.positions-hash    hash of the table's positions; a rollback shows by it
    heliograph.batch             as in the table, for the same
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple, Self

from spark_global.iceberg.upserts.keys import Upsert, UpsertBy
from spark_global.kept.said import (
    COMPLETE_THROUGH,
    KIND,
    SourceRange,
    Through,
    complete_text,
    decode_complete,
    positions_text,
    said_of_batch,
    with_news,
)
from spark_global.streaming.positions import CheckpointError, StreamPositions

VIEW: Final = "heliograph.view"
WRITER_EPOCH: Final = "heliograph.writer-epoch"
WRITER: Final = "heliograph.writer"
POSITIONS: Final = "heliograph.positions"
QUERY: Final = "heliograph.query"
BATCH: Final = "heliograph.batch"
UPSERT: Final = "heliograph.upsert"
UPSERT_BUCKETS: Final = "heliograph.upsert-buckets"

NOTHING_READ: Final = StreamPositions(topic_ids={}, offsets={})


class TableStateError(ValueError):
    """The properties of a table are not those of a table that Heliograph keeps."""


class SnapshotKind(StrEnum):
    """Why a snapshot was committed."""

    TAKEOVER = "takeover"
    """A writer took its epoch. No rows."""
    BATCH = "batch"
    STATE = "state"
    """Only `complete-through` has advanced. No rows."""
    MOVE = "move"
    """The positions are those of another aggregate. No rows."""
    COMPACTION = "compaction"
    """The same rows in other files."""


class Writer(NamedTuple):
    """One run of the job that keeps a table."""

    epoch: int
    run_id: str


class QueryState(NamedTuple):
    """How far the query has come whose batches a table has."""

    query_id: str
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """How far a table has come, and who may extend it."""

    view: str
    writer: Writer | None = None
    """None before the first writer."""
    positions: StreamPositions = NOTHING_READ
    complete: Mapping[str, Through]
    """By datacenter."""
    upsert: Upsert | None = None
    """None for a table with every record."""
    query: QueryState | None = None
    """None if the positions are the only state of the writer, and before the first batch."""

    def properties(self) -> dict[str, str]:
        """Return the state as properties of the table."""
        found = {
            VIEW: self.view,
            POSITIONS: positions_text(self.positions),
            COMPLETE_THROUGH: complete_text(self.complete),
        }
        if self.upsert is not None:
            found |= {UPSERT: self.upsert.by, UPSERT_BUCKETS: str(self.upsert.buckets)}
        if self.query is not None:
            found |= {QUERY: self.query.query_id, BATCH: str(self.query.batch)}
        if self.writer is not None:
            found |= {WRITER_EPOCH: str(self.writer.epoch), WRITER: self.writer.run_id}
        return found

    @classmethod
    def decode(cls, properties: Mapping[str, str]) -> Self:
        """Read the properties of a table. Raises TableStateError."""
        if VIEW not in properties:
            raise TableStateError(f"it has no property {VIEW}, so Heliograph does not keep it")
        try:
            writer = None
            if WRITER_EPOCH in properties:
                writer = Writer(int(properties[WRITER_EPOCH]), properties[WRITER])
            upsert = None
            if UPSERT in properties:
                upsert = Upsert(UpsertBy(properties[UPSERT]), int(properties[UPSERT_BUCKETS]))
            query = None
            if QUERY in properties:
                query = QueryState(properties[QUERY], int(properties[BATCH]))
            return cls(
                view=properties[VIEW],
                writer=writer,
                upsert=upsert,
                query=query,
                positions=StreamPositions.decode(json.loads(properties[POSITIONS])),
                complete=decode_complete(properties[COMPLETE_THROUGH]),
            )
        except (AttributeError, CheckpointError, KeyError, TypeError, ValueError) as error:
            raise TableStateError(f"its properties heliograph.* are broken: {error!r}") from error

    def with_complete(self, complete: Mapping[str, Through]) -> Self:
        """Return the state with newer times; a datacenter without news keeps its own.

        What is proved stays proved, and a gap stays one, also if another link says so no more.
        """
        return replace(self, complete=with_news(self.complete, complete))


def snapshot_properties(
    state: TableState,
    kind: SnapshotKind,
    start: StreamPositions | None = None,
    ranges: Iterable[SourceRange] = (),
) -> dict[str, str]:
    """Return what the summary of a snapshot says; `state` is that of the table after it.

    `start` has the positions before the snapshot, if it adds rows.
    """
    added = state.positions if start is None else start
    batch = {} if state.query is None else {BATCH: str(state.query.batch)}
    return {
        KIND: kind,
        WRITER_EPOCH: "0" if state.writer is None else str(state.writer.epoch),
        **batch,
        **said_of_batch(added, state.positions, ranges, state.complete),
    }
