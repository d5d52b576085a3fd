"""Topics in messages: by name in older versions, by id (KIP-516) in newer ones."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final, Protocol, TypeVar

from local_cluster.wire.errors import PeerError
from local_cluster.wire.primitives import read_string, write_string

NO_TOPIC_ID: Final = bytes(16)
TOPIC_IDS_KEPT_MAX: Final = 1_024
"""Topic ids whose UUID objects are cached."""


class OfTopic(Protocol):
    """An entry that belongs to a topic. Its name is "" in versions that have only ids."""

    @property
    def topic(self) -> str: ...
    @property
    def topic_id(self) -> uuid.UUID | None: ...


_Entry = TypeVar("_Entry", bound=OfTopic)


@lru_cache(TOPIC_IDS_KEPT_MAX)
def _topic_id(raw: bytes) -> uuid.UUID:
    """Return the same object for the same bytes.

    Creating a UUID costs as much as reading a partition. Comparing two costs more than `is`.
    """
    return uuid.UUID(bytes=raw)


def _topic(entry: OfTopic) -> tuple[str, uuid.UUID | None]:
    return entry.topic, entry.topic_id


def runs_by_topic(entries: Sequence[_Entry]) -> list[list[_Entry]]:
    """Group flat entries as the wire does: one list for each run of the same topic."""
    if len(entries) == 1:
        return [list(entries)]
    return [list(run) for _, run in groupby(entries, key=_topic)]


def write_topic(entry: OfTopic, *, flexible: bool, by_id: bool) -> bytes:
    """Encode the topic of a run."""
    if by_id:
        return NO_TOPIC_ID if entry.topic_id is None else entry.topic_id.bytes
    return write_string(entry.topic, flexible=flexible)


def read_topic(
    frame: memoryview, position: int, *, flexible: bool, by_id: bool
) -> tuple[str, uuid.UUID | None, int]:
    """Return (name or "", id or None, next position). Raises PeerError."""
    if by_id:
        raw = bytes(frame[position : position + 16])
        if len(raw) < 16:
            raise PeerError("topic id cut short")
        return "", None if raw == NO_TOPIC_ID else _topic_id(raw), position + 16
    topic, position = read_string(frame, position, flexible=flexible)
    if topic is None:
        raise PeerError("null topic name")
    return topic, None, position
