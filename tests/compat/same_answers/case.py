"""A case: requests on one connection to both brokers, and the accepted differences."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.compat.same_answers.asking import Ask


@dataclass(frozen=True)
class Case:
    """Requests that are sent one by one on a connection of their own."""

    name: str
    asks: Sequence[Ask]

    def __str__(self) -> str:
        return self.name


def case(name: str, *asks: Ask) -> Case:
    return Case(name, asks)


class Deviation(NamedTuple):
    """A known difference and its reason; `where` is a pattern of "case name: path"."""

    where: str
    why: str


class Difference(NamedTuple):
    """One field with two values."""

    path: str
    ours: Any
    kafkas: Any

    def __str__(self) -> str:
        return f"{self.path}: ours {self.ours!r}, Kafka's {self.kafkas!r}"


MISSING = "(missing)"


def differences(ours: Any, kafkas: Any, path: str = "") -> Iterator[Difference]:
    """Return the differences of two plain values, by path."""
    if isinstance(ours, dict) and isinstance(kafkas, dict):
        for name in sorted(ours.keys() | kafkas.keys()):
            yield from differences(
                ours.get(name, MISSING), kafkas.get(name, MISSING), f"{path}/{name}"
            )
    elif isinstance(ours, list) and isinstance(kafkas, list) and len(ours) == len(kafkas):
        for index, (one, other) in enumerate(zip(ours, kafkas, strict=True)):
            yield from differences(one, other, f"{path}/{index}")
    elif ours != kafkas:
        yield Difference(path, ours, kafkas)


def allowed(case_name: str, path: str, deviations: Sequence[Deviation]) -> Deviation | None:
    """Return the documented deviation that covers a difference, if any."""
    where = f"{case_name}: {path}"
    return next((each for each in deviations if fnmatch.fnmatchcase(where, each.where)), None)
