"""Partitions and logs as the judges of a simulated cluster name them, and their verdict."""

from __future__ import annotations

import uuid
from typing import NamedTuple


class Anomaly(AssertionError):
    """The cluster broke a promise."""


class At(NamedTuple):
    """One partition."""

    topic: str
    partition: int


class Log(NamedTuple):
    """One partition of a topic id: a re-created topic has other logs."""

    at: At
    topic_id: uuid.UUID

    def __str__(self) -> str:
        return f"{self.at.topic}-{self.at.partition} of {self.topic_id}"
