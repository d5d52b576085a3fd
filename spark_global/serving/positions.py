"""What a lane has written, and whether a batch is new to it. Pure.

A lane is a fixed share of the rows of every batch. It writes its records of a batch in one
transaction, together with its position: the last record of the lane's partition in the topic of
positions. A query that runs a batch again has the same rows in each lane.

    the lane's position    verdict
    none                   write
    of another query       refused: the numbers of its batches mean other records
    of an earlier batch    write
    of this or a later one skip: the lane has committed it, or the query is a replaced one
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Self

VERSION: Final = 1


class ServedByAnotherError(ValueError):
    """The positions belong to another query."""


class BrokenPositionError(ValueError):
    """The last record of a partition of positions is none."""


@dataclass(frozen=True, slots=True)
class LanePosition:
    """The last batch that a lane has written."""

    query_id: str
    """Spark's id of the query, which its checkpoint keeps."""
    batch: int

    def encode(self) -> bytes:
        document = {"version": VERSION, "query": self.query_id, "batch": self.batch}
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
            return cls(str(document["query"]), int(document["batch"]))
        except (KeyError, TypeError, ValueError) as error:
            raise BrokenPositionError(f"the last record is no position: {error!r}") from error


def is_new(held: LanePosition | None, batch: LanePosition) -> bool:
    """Return whether a lane must write a batch. Raises ServedByAnotherError."""
    if held is None:
        return True
    if held.query_id != batch.query_id:
        raise ServedByAnotherError(
            f"query {held.query_id} has served batch {held.batch}, and this is query "
            f"{batch.query_id}: go on with the checkpoint of that query, or serve under another "
            "--name, which writes everything again"
        )
    return held.batch < batch.batch


def positions_topic_name(name: str) -> str:
    """Return the topic of positions; MirrorMaker 2's pattern for internal topics excludes it."""
    return f"heliograph-served.{name}.internal"


def transactional_id(name: str, lane: int) -> str:
    """Return the id by which a lane's newest writer fences all earlier ones."""
    return f"heliograph-serve-{name}-{lane}"
