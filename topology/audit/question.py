"""What may be asked of the audit, and what can go wrong. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mirror_maker.formats import FlowKey

Progress = Callable[[str], None]
"""Takes a line about what is done now."""
JsonObject = dict[str, Any]


class AuditUnreadable(Exception):
    """Something that the audit needs could not be read, and why."""


class UnknownName(Exception):
    """Neither a link nor a topic is called so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuestion:
    """What is asked."""

    name: str | None = None
    """Of a link or of a topic on either side; None: everything."""
    since_ms: int | None = None
    """Only records of this time and later, as far as times are known."""
    with_records: bool = False
    """Whether both logs are read."""


def is_asked(topic: str | None, flow: FlowKey, target_topic: str) -> bool:
    """Whether the question is about this flow; None asks about all."""
    return topic in (None, flow.source_topic, target_topic)
