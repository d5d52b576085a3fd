"""What a lane has written, and whether a batch is new to it. Pure.

A lane is a fixed share of the rows of every batch. It writes its records of a batch in one
transaction, together with its position: the last record of the lane's partition in the topic of
positions. A query that runs a batch again has the same rows in each lane.

    the lane's position          verdict
    none                         write
    of another query             refused: the numbers of its batches mean other records
    of another number of lanes   refused: its rows are spread over the lanes otherwise
    of an earlier batch          write
    of this batch                skip, if the lane has the same rows; else refused
    of a later batch             refused: the query is a replaced one, or its checkpoint is old
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Final, Self

VERSION: Final = 1


class ServedByAnotherError(ValueError):
    """The positions belong to another query, or to other rows of it."""


class BrokenPositionError(ValueError):
    """The last record of a partition of positions is none."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a query."""

    query_id: str
    """Spark's id of the query, which its checkpoint keeps."""
    number: int
    lanes: int
    """How many lanes its rows are spread over."""


@dataclass(slots=True)
class Tally:
    """How many records a lane has in a batch, and which, whatever their order."""

    records: int = 0
    checksum: int = 0

    def add(self, key: bytes | None, value: bytes | None) -> None:
        self.checksum += zlib.crc32(value or b"", zlib.crc32(key or b""))
        self.records += 1


@dataclass(frozen=True, slots=True)
class LanePosition:
    """The last batch that a lane has written, and its records."""

    batch: Batch
    tally: Tally

    def encode(self) -> bytes:
        document = {
            "version": VERSION,
            "query": self.batch.query_id,
            "batch": self.batch.number,
            "lanes": self.batch.lanes,
            "records": self.tally.records,
            "checksum": self.tally.checksum,
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> Self:
        """Raises BrokenPositionError."""
        try:
            document = json.loads(value or b"")
            if document["version"] != VERSION:
                raise BrokenPositionError(
                    f"the position is of version {document['version']!r}; this program knows "
                    f"{VERSION}"
                )
            numbers = (int(document[name]) for name in ("batch", "lanes", "records", "checksum"))
            number, lanes, records, checksum = numbers
            return cls(Batch(str(document["query"]), number, lanes), Tally(records, checksum))
        except (KeyError, TypeError, ValueError) as error:
            raise BrokenPositionError(f"the last record is no position: {error!r}") from error


def is_new(held: LanePosition | None, batch: Batch) -> bool:
    """Return whether a lane must write a batch. Raises ServedByAnotherError."""
    if held is None:
        return True
    last = held.batch
    if last.query_id != batch.query_id:
        raise ServedByAnotherError(
            f"query {last.query_id} has served batch {last.number}, and this is query "
            f"{batch.query_id}: go on with the checkpoint of that query, or serve under another "
            "--name, which writes everything again"
        )
    if last.lanes != batch.lanes:
        raise ServedByAnotherError(
            f"batch {last.number} was spread over {last.lanes} lanes, and the topic of positions "
            f"has {batch.lanes} partitions now: serve under another --name, which writes "
            "everything again"
        )
    if last.number > batch.number:
        raise ServedByAnotherError(
            f"batch {last.number} of the query is served, and this is batch {batch.number}: "
            "another driver runs the query, or the checkpoint is an older copy"
        )
    return last.number < batch.number


def check_same(held: LanePosition, found: Tally) -> None:
    """Refuse a batch that runs again with other rows. Raises ServedByAnotherError."""
    if held.tally != found:
        raise ServedByAnotherError(
            f"batch {held.batch.number} was served with {held.tally.records} records, and runs "
            f"again with {found.records}, or with others: the checkpoint is an older copy, or the "
            "records have changed"
        )


def positions_topic_name(name: str) -> str:
    """Return the topic of positions; MirrorMaker 2's pattern for internal topics excludes it."""
    return f"heliograph-served.{name}.internal"


def transactional_id(name: str, lane: int) -> str:
    """Return the id by which a lane's newest writer fences all earlier ones."""
    return f"heliograph-serve-{name}-{lane}"
