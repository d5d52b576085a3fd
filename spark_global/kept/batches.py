"""Whether a batch of a streaming query may be committed to a table. Pure.

A table has the number of its newest batch, and a hash of the positions after it: two `txn` actions
of a Delta table, properties of an Iceberg table. Both are read from the version of the table that
the commit is based on. The commit creates the next version and no later one. So of two commits with
one base only one succeeds, whoever sends it and however late it arrives.

    the table's batch   its positions      verdict
    none                                   COMMIT batch 0, refuse any other
    the batch before    start of batch     COMMIT
    this batch          end of batch       DONE: an earlier attempt succeeded
    a later batch       any                refused: another run of the query has gone on
    anything else                          refused: table and checkpoint do not belong together
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from spark_global.kept.said import positions_hash
from spark_global.streaming.positions import StreamPositions


class BatchRefusedError(ValueError):
    """The batch is not the next one of the table."""


class Held(NamedTuple):
    """How far a version of the table has come."""

    batch: int
    positions_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of the query: its rows are those of [start, end)."""

    number: int
    start: StreamPositions
    end: StreamPositions

    @property
    def after(self) -> Held:
        """What the table says after its commit."""
        return Held(self.number, positions_number(self.end))


class Verdict(StrEnum):
    """What a writer does with a batch."""

    COMMIT = "commit"
    DONE = "done"


def decide_commit(held: Held | None, batch: Batch) -> Verdict:
    """Decide about a batch on the version that its commit is based on. Raises BatchRefusedError."""
    if held is None:
        if batch.number == 0:
            return Verdict.COMMIT
        raise BatchRefusedError(
            f"the query is at batch {batch.number}, and the table has none of it; " + _WAY_OUT
        )
    if held.batch > batch.number:
        raise BatchRefusedError(
            f"the table has batch {held.batch}, and this query is at batch {batch.number}: a newer "
            "run of the query has gone on, and this one stops; or its checkpoint is an old copy"
        )
    if held == batch.after:
        return Verdict.DONE
    if held == Held(batch.number - 1, positions_number(batch.start)):
        return Verdict.COMMIT
    raise BatchRefusedError(
        f"the table has batch {held.batch}, and batch {batch.number} of the query does not begin "
        "there; " + _WAY_OUT
    )


def positions_number(positions: StreamPositions) -> int:
    """Return a hash of positions in 63 bits, as the version of Delta's `txn` action has."""
    return int(positions_hash(positions), 16) >> 1


_WAY_OUT = (
    "table and checkpoint do not belong together: restore both, or begin a new table with a new "
    "checkpoint"
)
