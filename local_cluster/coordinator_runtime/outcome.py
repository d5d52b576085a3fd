"""The result of one step of a coordinator shard, and the time that a step is given.

A *ticket* is the number that the runtime gives to a request. The response is in the outcome of the
step that handles the request, or in a later one if the request has to wait (JoinGroup).
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
    """The records to append, and the responses and follow-ups to release once they are committed.

    Responses and follow-ups wait for these records and for those of all earlier steps, because
    they may reveal state that exists only in those records.
    """

    records: list[StoredRecord] = field(default_factory=list)
    responses: list[tuple[int, Any]] = field(default_factory=list)
    """(ticket, response)"""
    producer: tuple[int, int] | None = None
    """(producer id, epoch) if the records belong to a transaction."""
    follow_ups: list[Any] = field(default_factory=list)
    """Work outside the shard (the markers of a decided transaction). The coordinator that made the
    shard knows how to do it."""

    def respond(self, ticket: int, response: object) -> Outcome:
        """Add the response to a request."""
        self.responses.append((ticket, response))
        return self
