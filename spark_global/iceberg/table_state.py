"""What a table and its snapshots say about their records. Pure.

Properties of the table; a commit replaces them together with the rows:

    heliograph.view              the view that the table keeps
    heliograph.writer-epoch      how many writers have taken the table over
    heliograph.writer            which run has the epoch
    heliograph.positions         the next aggregate offset per partition, as `StreamPositions`
    heliograph.complete-through  {"JFK": {"through": time, "proved": time, "gaps": 0}}
    heliograph.upsert            key or datacenter-key, in a table of the latest records only
    heliograph.upsert-buckets    the number of its buckets

Properties of a snapshot, in its summary:

    heliograph.kind              takeover, batch, state, move or compaction
    heliograph.writer-epoch      the epoch of the writer
    heliograph.aggregate-offsets {"jfk.flights": {"0": [start, end]}}, what the snapshot adds
    heliograph.source-offsets    [{"datacenter", "topic", "partition", "first", "end", "records"}]
    heliograph.complete-through  as in the table
    heliograph.positions-hash    hash of the table's positions; a rollback shows by it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple, Self

from spark_global.cut.offsets import time_text
from spark_global.iceberg.upserts.keys import Upsert, UpsertBy
from spark_global.streaming.positions import CheckpointError, StreamPositions

VIEW: Final = "heliograph.view"
WRITER_EPOCH: Final = "heliograph.writer-epoch"
WRITER: Final = "heliograph.writer"
POSITIONS: Final = "heliograph.positions"
COMPLETE_THROUGH: Final = "heliograph.complete-through"
UPSERT: Final = "heliograph.upsert"
UPSERT_BUCKETS: Final = "heliograph.upsert-buckets"
KIND: Final = "heliograph.kind"
AGGREGATE_OFFSETS: Final = "heliograph.aggregate-offsets"
SOURCE_OFFSETS: Final = "heliograph.source-offsets"
POSITIONS_HASH: Final = "heliograph.positions-hash"

NOTHING_READ: Final = StreamPositions(topic_ids={}, offsets={})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


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


class Through(NamedTuple):
    """Until when a table has every record of a datacenter."""

    through_ms: int | None
    """Every record that was committed before this time is in the table, or left out by a rule."""
    proved_ms: int | None
    """The same, and no later leader epoch can withdraw it."""
    gaps: int
    """Entries of the journals of its links: records that were left out."""


class SourceRange(NamedTuple):
    """Source offsets of one partition that a snapshot adds."""

    datacenter: str | None
    topic: str
    partition: int
    first: int | None
    """None if the origin of the records is unknown."""
    end: int | None
    records: int


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

    def properties(self) -> dict[str, str]:
        """Return the state as properties of the table."""
        found = {
            VIEW: self.view,
            POSITIONS: _positions_text(self.positions),
            COMPLETE_THROUGH: _complete_text(self.complete),
        }
        if self.upsert is not None:
            found |= {UPSERT: self.upsert.by, UPSERT_BUCKETS: str(self.upsert.buckets)}
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
            return cls(
                view=properties[VIEW],
                writer=writer,
                upsert=upsert,
                positions=StreamPositions.decode(json.loads(properties[POSITIONS])),
                complete=decode_complete(properties[COMPLETE_THROUGH]),
            )
        except (AttributeError, CheckpointError, KeyError, TypeError, ValueError) as error:
            raise TableStateError(f"its properties heliograph.* are broken: {error!r}") from error

    def with_complete(self, complete: Mapping[str, Through]) -> Self:
        """Return the state with newer times; a datacenter without news keeps its own.

        What is proved stays proved, and a gap stays one, also if another link says so no more.
        """
        news = {
            name: each if (before := self.complete.get(name)) is None else _later(before, each)
            for name, each in complete.items()
        }
        return replace(self, complete={**self.complete, **news})


def snapshot_properties(
    state: TableState,
    kind: SnapshotKind,
    start: StreamPositions | None = None,
    ranges: Iterable[SourceRange] = (),
) -> dict[str, str]:
    """Return what the summary of a snapshot says; `state` is that of the table after it.

    `start` has the positions before the snapshot, if it adds rows.
    """
    added = {} if start is None else aggregate_ranges(start, state.positions)
    return {
        KIND: kind,
        WRITER_EPOCH: "0" if state.writer is None else str(state.writer.epoch),
        AGGREGATE_OFFSETS: _text(added),
        SOURCE_OFFSETS: _text([each._asdict() for each in united(ranges)]),
        COMPLETE_THROUGH: _complete_text(state.complete),
        POSITIONS_HASH: positions_hash(state.positions),
    }


def aggregate_ranges(
    start: StreamPositions, end: StreamPositions
) -> dict[str, dict[str, list[int]]]:
    """Return [start, end) of each partition that has advanced, by topic and partition."""
    found: dict[str, dict[str, list[int]]] = {}
    for at, offset in sorted(end.offsets.items()):
        first = start.offsets.get(at, offset)
        if first < offset:
            found.setdefault(at.topic, {})[str(at.partition)] = [first, offset]
    return found


def united(ranges: Iterable[SourceRange]) -> list[SourceRange]:
    """Return one range per partition: the least one that has all of them."""
    found: dict[tuple[str, str, int], SourceRange] = {}
    for each in ranges:
        at = each.datacenter or "", each.topic, each.partition
        before = found.get(at)
        if before is not None:
            firsts = [x for x in (before.first, each.first) if x is not None]
            ends = [x for x in (before.end, each.end) if x is not None]
            each = each._replace(
                first=min(firsts, default=None),
                end=max(ends, default=None),
                records=before.records + each.records,
            )
        found[at] = each
    return [found[at] for at in sorted(found)]


def positions_hash(positions: StreamPositions) -> str:
    """Return a short hash of positions."""
    return hashlib.sha256(_positions_text(positions).encode()).hexdigest()[:16]


def decode_complete(text: str) -> dict[str, Through]:
    """Read the property `heliograph.complete-through`. Raises ValueError and TypeError."""
    return {
        str(name): Through(_time(each["through"]), _time(each["proved"]), int(each["gaps"]))
        for name, each in json.loads(text).items()
    }


def describe_complete(complete: Mapping[str, Through]) -> list[str]:
    """Return until when a table is complete, one line per datacenter."""
    return [
        f"{name}: "
        + ("not known" if each.through_ms is None else f"complete through {_iso(each.through_ms)}")
        + (f", with {each.gaps} gaps" if each.gaps else "")
        for name, each in sorted(complete.items())
    ]


def _later(before: Through, after: Through) -> Through:
    proved = [each for each in (before.proved_ms, after.proved_ms) if each is not None]
    through = [each for each in (after.through_ms, *proved) if each is not None]
    return Through(
        max(through, default=None), max(proved, default=None), max(before.gaps, after.gaps)
    )


def _complete_text(complete: Mapping[str, Through]) -> str:
    return _text(
        {
            name: {
                "through": _iso(each.through_ms),
                "proved": _iso(each.proved_ms),
                "gaps": each.gaps,
            }
            for name, each in sorted(complete.items())
        }
    )


def _positions_text(positions: StreamPositions) -> str:
    return _text(positions.encode())


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _iso(time_ms: int | None) -> str | None:
    return None if time_ms is None else time_text(time_ms)


def _time(text: str | None) -> int | None:
    return None if text is None else (datetime.fromisoformat(text) - _EPOCH) // _MILLISECOND
