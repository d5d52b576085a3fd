"""The question to an audit, and its errors. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mirror_maker.formats import FlowKey

Progress = Callable[[str], None]
"""Takes one line about the current step."""
JsonObject = dict[str, Any]


class AuditUnreadable(Exception):
    """The audit could not read something; the message says what and why."""


class UnknownName(Exception):
    """No link and no topic has this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuestion:
    """What to audit."""

    name: str | None = None
    """Name of a link, or of a topic of its source or target; None for every link."""
    since_ms: int | None = None
    """Only records from this time on, in milliseconds since the epoch, if their time is known."""
    with_records: bool = False
    """Whether to read both logs."""


def is_asked(topic: str | None, flow: FlowKey, target_topic: str) -> bool:
    """Return whether the question covers this flow; topic None covers every flow."""
    return topic in (None, flow.source_topic, target_topic)
