"""How the judges of a simulated cluster name things, and what they say when it breaks a promise."""

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
    """One partition of one topic among those that had its name."""

    at: At
    topic_id: uuid.UUID

    def __str__(self) -> str:
        return f"{self.at.topic}-{self.at.partition} of {self.topic_id}"
