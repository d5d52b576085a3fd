"""Requests about topics: topics and partitions to create, and legal topic names."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from local_cluster.controller.model.cluster_image import TopicState
from local_cluster.wire.errors import KafkaError

TOPIC_NAME_LENGTH_MAX: Final = 249
DEFAULT: Final = -1

_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


ChargePartitions = Callable[[int], None]
"""Counts partitions that a request creates or deletes; raises KafkaError above a quota."""


def free_of_charge(partitions: int) -> None:
    """Count nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic to create; DEFAULT stands for the broker's default."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """The result for one TopicSpec."""

    name: str
    error: KafkaError | None
    topic: TopicState | None = None
    """The topic as created, or as it would be with `validate_only`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsSpec:
    """Partitions to add to a topic, up to `count`."""

    topic: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None
    """Replicas of each added partition."""


def topic_name_problem(name: str) -> str | None:
    """Return what is wrong with a topic name, None if it is legal."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed "
            f"length {TOPIC_NAME_LENGTH_MAX}"
        )
    if not _LEGAL_NAME.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


_Named = TypeVar("_Named", bound=Hashable)


def repeated(names: Iterable[_Named]) -> frozenset[_Named]:
    """Return the names that a request has more than once: Kafka refuses each of them."""
    seen: set[_Named] = set()
    twice: set[_Named] = set()
    for name in names:
        (twice if name in seen else seen).add(name)
    return frozenset(twice)
