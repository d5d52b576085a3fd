"""Compare what a Kafka client sees of two clusters, field by field. Pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tests.compat.java44.expected_differences import EXPECTED

ABSENT: Final = "<absent>"
TEXT_CHARACTERS_MAX: Final = 300


class Difference(NamedTuple):
    """One field of one scenario whose value is not the same."""

    path: str
    """The scenario, then keys and indexes, with "/" between them."""
    kafka: Any
    ours: Any
    reason: str | None = None
    """Why it is expected; None if it is not."""

    def __str__(self) -> str:
        values = (str(self.kafka)[:TEXT_CHARACTERS_MAX], str(self.ours)[:TEXT_CHARACTERS_MAX])
        reason = self.reason or "UNEXPECTED"
        return f"{self.path}\n    Kafka: {values[0]}\n    ours:  {values[1]}\n    {reason}"


def differences(kafka: Mapping[str, Any], ours: Mapping[str, Any]) -> list[Difference]:
    """Return every field that differs, with the reason if it is expected."""
    return [
        Difference(path, theirs, our, reason_of(path))
        for path, theirs, our in _walk("", kafka, ours)
    ]


def reason_of(path: str) -> str | None:
    """Return why this path may differ, or None."""
    for pattern, reason in EXPECTED.items():
        if fnmatch.fnmatchcase(path, pattern):
            return reason
    return None


def outdated(found: list[Difference], played: Mapping[str, Any]) -> list[str]:
    """Return the expected differences of played scenarios that did not occur."""
    return [
        pattern
        for pattern in EXPECTED
        if any(fnmatch.fnmatchcase(name, pattern.split("/", 1)[0]) for name in played)
        and not any(fnmatch.fnmatchcase(each.path, pattern) for each in found)
    ]


def table(found: list[Difference]) -> str:
    """Return all differences as text, the unexpected ones last."""
    ordered = sorted(found, key=lambda each: (each.reason is None, each.path))
    return "\n".join(map(str, ordered))


def _walk(path: str, kafka: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(kafka, Mapping) and isinstance(ours, Mapping):
        for key in sorted(kafka.keys() | ours.keys()):
            below = f"{path}/{key}" if path else key
            yield from _walk(below, kafka.get(key, ABSENT), ours.get(key, ABSENT))
    elif isinstance(kafka, list) and isinstance(ours, list) and len(kafka) == len(ours):
        for index, (theirs, our) in enumerate(zip(kafka, ours, strict=True)):
            yield from _walk(f"{path}/{index}", theirs, our)
    elif kafka != ours:
        yield path, kafka, ours
