"""What one step of a coordinator's shard wants done, and how a step is told the time.

A request is named by a *ticket*, a number of the runtime's. Its answer is in the outcome of the
step that asked, or, where it has to wait (JoinGroup), in a later one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Now(NamedTuple):
    """One reading of the clock: timeouts use the monotonic part, stored times the wall part."""

    wall_ms: int
    monotonic_ms: int


class StoredRecord(NamedTuple):
    """One record for the log; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class UnreadableRecordError(ValueError):
    """The bytes are not the record that their version claims."""


@dataclass(slots=True)
class Outcome:
    """Append the records; when they are committed give the answers and begin the follow-ups.

    Nothing of it may happen before the records, and all records of earlier steps, are committed:
    an answer may tell of state that exists only in those records.
    """

    records: list[StoredRecord] = field(default_factory=list)
    answers: list[tuple[int, Any]] = field(default_factory=list)
    """(ticket, answer)"""
    producer: tuple[int, int] | None = None
    """(producer id, epoch) whose transaction the records belong to, if any."""
    follow_ups: list[Any] = field(default_factory=list)
    """What has to be done elsewhere once the records are committed (the markers of a decided
    transaction); the coordinator that made the shard knows how."""

    def answer(self, ticket: int, answer: object) -> Outcome:
        """Give a request its answer."""
        self.answers.append((ticket, answer))
        return self
