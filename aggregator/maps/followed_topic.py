"""A topic of the aggregate that is replayed into memory, and how far that has come. Pure.

State (`TopicState`):

    loading --topic missing--> pending --topic appears--> loading --read to its end--> ready
    any     --topic re-created, deleted, trimmed past us or cut back--> loading, begun again
    any     --a record that is not the published format--> failed (read again from its start later)
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Generic, TypeVar

from local_cluster.records.batch import Record

T = TypeVar("T")


class TopicState(StrEnum):
    """How far a topic was read."""

    LOADING = "loading"
    PENDING = "pending"
    """The topic does not exist: the link has not started, or was removed."""
    READY = "ready"
    FAILED = "failed"
    """It is not of the published format."""


class Followed(Generic[T]):
    """One topic with one partition, and what its records say together."""

    def __init__(
        self, topic: str, make: Callable[[], T], apply: Callable[[T, Record], None]
    ) -> None:
        """`make` gives an empty value; `apply` takes a record into it, or raises MapFormatError."""
        self.topic = topic
        self.state = TopicState.LOADING
        self.value: T | None = None
        """What was read; None where the topic is missing or not readable."""
        self.next_offset: int | None = None
        """The offset that is read next; None before the first read."""
        self.high_watermark: int | None = None
        self.read_at: float | None = None
        """Monotonic seconds of the last answer; None before the first."""
        self.problem: str | None = None
        """Why it is not being read, in words; None while all is well."""
        self._make = make
        self._apply = apply

    @property
    def lag_records(self) -> int | None:
        """Offsets that were not read yet; None before the first read."""
        if self.next_offset is None or self.high_watermark is None:
            return None
        return max(0, self.high_watermark - self.next_offset)

    def begin(self) -> None:
        """It is read from its start."""
        self._set(TopicState.LOADING, self._make())

    def apply(self, record: Record) -> None:
        """Take in the next record. Raises MapFormatError."""
        assert self.value is not None, "begun before"
        self._apply(self.value, record)

    def set_missing(self) -> None:
        """It does not exist."""
        self._set(TopicState.PENDING, None)

    def set_failed(self, problem: str) -> None:
        """It is not readable; what was read is not served on."""
        self._set(TopicState.FAILED, None)
        self.problem = problem

    def note_read(self, next_offset: int, high_watermark: int, now: float) -> None:
        """It answered; ready as soon as its end was reached once."""
        if self.state is TopicState.FAILED:
            return
        if next_offset >= high_watermark:
            self.state = TopicState.READY
        self.next_offset, self.high_watermark = next_offset, high_watermark
        self.read_at, self.problem = now, None

    def note_problem(self, problem: str) -> None:
        """The aggregate does not answer; what was read stays served, since it stays true."""
        if self.state is not TopicState.FAILED:
            self.problem = problem

    def _set(self, state: TopicState, value: T | None) -> None:
        self.state, self.value, self.problem = state, value, None
        self.next_offset = self.high_watermark = self.read_at = None
