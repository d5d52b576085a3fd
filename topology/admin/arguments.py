"""Reads the arguments of commands: `key=value`, `topic:0,1`, offsets and times. Pure.

Every function raises ValueError with what was expected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d+)(ms|s|m|h|d)")
_TOPIC_PARTITIONS: Final = re.compile(r"([^:]+)(?::(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*))?")
PARTITIONS_MAX: Final = 100_000
"""Most partitions that an argument may name."""
PLACES: Final = (
    "`start`, `end`, an offset such as 42, a distance such as +10 or -10, an age such as 2h,"
    " or a time with its zone such as 2026-01-01T00:00:00Z"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where to read from: `value` is an offset, a distance, or milliseconds since the epoch."""

    kind: Literal["start", "end", "offset", "shift", "time"]
    value: int = 0


def parse_place(text: str, now_ms: int) -> Place:
    """Return the place that a text names. An age counts back from now."""
    if text in ("start", "earliest", "beginning"):
        return Place("start")
    if text in ("end", "latest"):
        return Place("end")
    if re.fullmatch(r"\d+", text):
        return Place("offset", int(text))
    if re.fullmatch(r"[+-]\d+", text):
        return Place("shift", int(text))
    return Place("time", parse_time(text, now_ms))


def parse_time(text: str, now_ms: int) -> int:
    """Return the milliseconds since the epoch of an age, or of a time with its zone."""
    age = _DURATION.fullmatch(text)
    if age is not None:
        return now_ms - int(age[1]) * UNITS_MS[age[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"{text!r} is not {PLACES}")
    return round(moment.timestamp() * 1000)


def parse_pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return the mapping of texts such as `retention.ms=1000`; a value may contain `=`."""
    pairs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise ValueError(f"{option} {text!r} is not NAME=VALUE")
        if name in pairs:
            raise ValueError(f"{option} names {name!r} twice")
        pairs[name.strip()] = value
    return pairs


def parse_partitions(texts: Sequence[str]) -> dict[str, list[int] | None]:
    """Return the partitions by topic of texts such as `orders` or `orders:0,3-5`; None is all."""
    found: dict[str, list[int] | None] = {}
    for text in texts:
        match = _TOPIC_PARTITIONS.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not TOPIC or TOPIC:PARTITION,PARTITION,FIRST-LAST")
        topic, listed = match[1], match[2]
        found[topic] = None if listed is None else _numbers(listed, text)
    return found


def _numbers(listed: str, text: str) -> list[int]:
    numbers: set[int] = set()
    for part in listed.split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if high < low or high - low >= PARTITIONS_MAX:
            raise ValueError(f"{text!r}: {part} is not FIRST-LAST")
        numbers.update(range(low, high + 1))
    return sorted(numbers)
