"""The setting `start`: where a link begins to copy a partition. Pure.

earliest                the source's first offset
latest                  the source's end, if the partition existed when the link began;
                        a partition that is found later is copied from its first offset
2026-01-01T00:00:00Z    the first record with that timestamp or a later one
mm2                     where a MirrorMaker 2 deployment stopped, by its offsets topic
                        `mm2-offsets.<source alias>.internal` on the target
mm2:TOPIC               the same, with the offsets topic of a Connect cluster
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

MM2_PREFIX: Final = "mm2:"


class StartKind(StrEnum):
    """The kinds of the setting, as the table above lists them."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    MM2 = "mm2"


@dataclass(frozen=True, slots=True)
class Start:
    """A parsed setting."""

    kind: StartKind
    timestamp_ms: int = -1
    """Set with TIMESTAMP."""
    offsets_topic: str | None = None
    """Set with MM2: the topic with its offsets; None for MirrorMaker 2's own name."""


def parse_start(text: str) -> Start:
    """Parse the setting. Raises ValueError that lists the valid forms."""
    if text in (StartKind.EARLIEST, StartKind.LATEST, StartKind.MM2):
        return Start(StartKind(text))
    if text.startswith(MM2_PREFIX) and len(text) > len(MM2_PREFIX):
        return Start(StartKind.MM2, offsets_topic=text.removeprefix(MM2_PREFIX))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(
            f"{text!r} is not earliest, latest, mm2, mm2:TOPIC or a time such as "
            "2026-01-01T00:00:00Z"
        )
    return Start(StartKind.TIMESTAMP, timestamp_ms=round(moment.timestamp() * 1000))


def check_start(text: str) -> str:
    """Return the setting unchanged. Raises ValueError if it is not valid."""
    parse_start(text)
    return text


def mm2_offsets_topic(source_alias: str) -> str:
    """Return the topic on the target where dedicated MirrorMaker 2 keeps its tasks' offsets."""
    return f"mm2-offsets.{source_alias}.internal"
