"""What is asked about topics: nouns, names, and the topics that nobody asks for. Pure.

One deviation from Kafka: where they are not set, the internal topics have one replica, not three,
so that a cluster of one broker works (the topology sets them to three where there are as many
brokers).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from local_cluster.controller.model.cluster_image import (
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    TopicState,
)
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import KafkaError

TOPIC_NAME_LENGTH_MAX: Final = 249
DEFAULT: Final = -1
OFFSETS_PARTITIONS_DEFAULT: Final = 50
TRANSACTIONS_PARTITIONS_DEFAULT: Final = 50
TRANSACTIONS_MIN_ISR_DEFAULT: Final = 2
"""Kafka's default; never more than there are replicas."""
INTERNAL_REPLICATION_FACTOR: Final = 1
OFFSETS_SEGMENT_BYTES_DEFAULT: Final = 100 * 1024 * 1024

_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic to create; DEFAULT takes the broker's default."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """What became of one TopicSpec."""

    name: str
    error: KafkaError | None
    topic: TopicState | None = None
    """The topic as created (or as it would be, with validate_only)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsSpec:
    """Partitions to add until a topic has `count`."""

    topic: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None
    """Replicas of each partition that is added."""


def topic_name_problem(name: str) -> str | None:
    """What is wrong with a topic name, None if nothing is."""
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


def auto_topic_spec(name: str, settings: BrokerSettings) -> TopicSpec:
    """What is created when a client uses a topic that does not exist."""
    if name == TRANSACTIONS_TOPIC:
        return TopicSpec(
            name=name,
            partitions=settings.config_int(
                "transaction.state.log.num.partitions", TRANSACTIONS_PARTITIONS_DEFAULT
            ),
            replication_factor=settings.config_int(
                "transaction.state.log.replication.factor", INTERNAL_REPLICATION_FACTOR
            ),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "unclean.leader.election.enable": "false",
                "min.insync.replicas": str(
                    settings.config_int(
                        "transaction.state.log.min.isr", TRANSACTIONS_MIN_ISR_DEFAULT
                    )
                ),
                "segment.bytes": str(
                    settings.config_int(
                        "transaction.state.log.segment.bytes", OFFSETS_SEGMENT_BYTES_DEFAULT
                    )
                ),
            },
        )
    if name != OFFSETS_TOPIC:
        return TopicSpec(name=name)
    return TopicSpec(
        name=name,
        partitions=settings.config_int("offsets.topic.num.partitions", OFFSETS_PARTITIONS_DEFAULT),
        replication_factor=settings.config_int(
            "offsets.topic.replication.factor", INTERNAL_REPLICATION_FACTOR
        ),
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(
                settings.config_int("offsets.topic.segment.bytes", OFFSETS_SEGMENT_BYTES_DEFAULT)
            ),
        },
    )


_Named = TypeVar("_Named", bound=Hashable)


def repeated(names: Iterable[_Named]) -> frozenset[_Named]:
    """What a request names more than once: each is refused."""
    seen: set[_Named] = set()
    twice: set[_Named] = set()
    for name in names:
        (twice if name in seen else seen).add(name)
    return frozenset(twice)
