"""A topic of the aggregate that is replayed into memory, and the progress of that. Pure.

State (`TopicState`):

    loading --topic missing--> pending --topic appears--> loading --read to its end--> ready
    any     --topic re-created, deleted, truncated, or trimmed past our position--> loading
    any     --a record in an unknown format--> failed (later it is read again from its start)
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Generic, TypeVar

from local_cluster.records.batch import Record

T = TypeVar("T")


class TopicState(StrEnum):
    """The progress of reading a topic."""

    LOADING = "loading"
    PENDING = "pending"
    """The topic does not exist: the link has not started, or was removed."""
    READY = "ready"
    FAILED = "failed"
    """Its records have an unknown format."""


class Followed(Generic[T]):
    """A topic with one partition, and the state that its records build."""

    def __init__(
        self,
        topic: str,
        make: Callable[[], T],
        apply: Callable[[T, Record], None],
        *,
        read_back_ms: int | None = None,
    ) -> None:
        """`make` returns an empty value. `apply` adds a record to it, or raises MapFormatError.

        With `read_back_ms` only the records of so long before the last one are read.
        """
        self.topic = topic
        self.read_back_ms = read_back_ms
        self.state = TopicState.LOADING
        self.value: T | None = None
        """The state; None if the topic is missing or not readable."""
        self.next_offset: int | None = None
        """The next offset to read; None before the first read."""
        self.high_watermark: int | None = None
        self.read_at: float | None = None
        """Monotonic seconds of the last read; None before the first."""
        self.problem: str | None = None
        """Why it cannot be read; None while it can."""
        self._make = make
        self._apply = apply

    @property
    def lag_records(self) -> int | None:
        """Offsets that were not read yet; None before the first read."""
        if self.next_offset is None or self.high_watermark is None:
            return None
        return max(0, self.high_watermark - self.next_offset)

    def begin(self) -> None:
        """Start over from the log start."""
        self._set(TopicState.LOADING, self._make())

    def apply(self, record: Record) -> None:
        """Apply the next record. Raises MapFormatError."""
        assert self.value is not None, "`begin` comes first"
        self._apply(self.value, record)

    def set_missing(self) -> None:
        """Record that the topic does not exist."""
        self._set(TopicState.PENDING, None)

    def set_failed(self, problem: str) -> None:
        """Record that the topic is not readable, and drop the state."""
        self._set(TopicState.FAILED, None)
        self.problem = problem

    def note_read(self, next_offset: int, high_watermark: int, now: float) -> None:
        """Record a read. The topic is ready once its end was reached."""
        if self.state is TopicState.FAILED:
            return
        if next_offset >= high_watermark:
            self.state = TopicState.READY
        self.next_offset, self.high_watermark = next_offset, high_watermark
        self.read_at, self.problem = now, None

    def note_problem(self, problem: str) -> None:
        """Record that the aggregate does not respond. The state stays: records remain true."""
        if self.state is not TopicState.FAILED:
            self.problem = problem

    def _set(self, state: TopicState, value: T | None) -> None:
        self.state, self.value, self.problem = state, value, None
        self.next_offset = self.high_watermark = self.read_at = None
