"""What may be asked about topics, and what is refused with which code: pure checks.

Wording and order follow Kafka 4.3's ReplicationControlManager. One deviation: where they are not
set, the internal topics have one replica, not three, so that a cluster of one broker works (the
topology sets them to three where there are as many brokers).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from local_cluster.controller.cluster_state import ClusterState
from local_cluster.controller.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicState
from local_cluster.controller.placement import load_of, place, sites_of
from local_cluster.log.config import validate_topic_configs
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import ErrorCode, KafkaError

TOPIC_NAME_LENGTH_MAX: Final = 249
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""As Kafka's controller: a request above this is a mistake."""
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


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic that may be created."""

    name: str
    topic_id: uuid.UUID
    replicas: Mapping[int, tuple[int, ...]]
    configs: Mapping[str, str]


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


def plan_topic(
    spec: TopicSpec, state: ClusterState, settings: BrokerSettings, topic_id: uuid.UUID
) -> TopicPlan:
    """Check a spec and place its replicas. Raises KafkaError."""
    _check_name(spec.name, state)
    configs = _check_configs(spec.configs)
    if spec.assignments:
        if spec.partitions != DEFAULT or spec.replication_factor != DEFAULT:
            raise KafkaError(
                ErrorCode.invalid_request,
                "A manual partition assignment was specified, but "
                + ("numPartitions" if spec.partitions != DEFAULT else "replication factor")
                + " was not set to -1.",
            )
        replicas = _check_assignments(spec.assignments, state.brokers.keys(), first=0)
        return TopicPlan(spec.name, topic_id, replicas, configs)
    partitions = spec.partitions
    if partitions == DEFAULT:
        partitions = settings.config_int("num.partitions", 1)
    if partitions < 1:
        raise KafkaError(
            ErrorCode.invalid_partitions,
            "Number of partitions was set to an invalid non-positive value.",
        )
    _check_partitions_count(partitions)
    factor = spec.replication_factor
    if factor == DEFAULT:
        factor = settings.config_int("default.replication.factor", 1)
    _check_replication_factor(factor, len(state.brokers))
    none = load_of(())
    replicas = place(
        range(partitions),
        factor,
        sites_of(state.brokers),
        topic=none,
        cluster=load_of(state.topics.values()),
    )
    return TopicPlan(spec.name, topic_id, replicas, configs)


def plan_partitions(spec: PartitionsSpec, state: ClusterState) -> dict[int, tuple[int, ...]]:
    """Replicas of the partitions to add. Raises KafkaError."""
    topic = state.topics.get(spec.topic)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    present = len(topic.partitions)
    if spec.count == present:
        raise KafkaError(ErrorCode.invalid_partitions, f"Topic already has {present} partition(s).")
    if spec.count < present:
        raise KafkaError(
            ErrorCode.invalid_partitions,
            f"The topic {spec.topic} currently has {present} partition(s); {spec.count} would not "
            "be an increase.",
        )
    _check_partitions_count(spec.count - present)
    added = range(present, spec.count)
    oldest = topic.partitions.get(0)
    factor = 1 if oldest is None else len(oldest.replicas)
    if spec.assignments is not None:
        if len(spec.assignments) != len(added):
            raise KafkaError(
                ErrorCode.invalid_replica_assignment,
                f"Attempted to add {len(added)} additional partition(s), but only "
                f"{len(spec.assignments)} assignment(s) were specified.",
            )
        given = dict(zip(added, spec.assignments, strict=True))
        return _check_assignments(given, state.brokers.keys(), first=present, factor=factor)
    _check_replication_factor(factor, len(state.brokers))
    return place(
        added,
        factor,
        sites_of(state.brokers),
        topic=load_of((topic,)),
        cluster=load_of(state.topics.values()),
    )


def _check_name(name: str, state: ClusterState) -> None:
    problem = topic_name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.invalid_topic_exception, problem)
    if name in state.topics:
        raise KafkaError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    if name in state.deletions:
        raise KafkaError(ErrorCode.topic_already_exists, f"Topic '{name}' is marked for deletion.")
    # Metric names turn '.' into '_', so two such topics would share theirs.
    folded = name.replace(".", "_")
    if "_" in folded:
        collisions = [other for other in state.topics if other.replace(".", "_") == folded]
        if collisions:
            raise KafkaError(
                ErrorCode.invalid_topic_exception,
                f"Topic '{name}' collides with existing topic: {min(collisions)}",
            )


def _check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    empty = sorted(name for name, value in configs.items() if value is None)
    if empty:
        raise KafkaError(
            ErrorCode.invalid_config,
            f"Null value not supported for topic configs: {', '.join(empty)}",
        )
    given = {name: value for name, value in configs.items() if value is not None}
    validate_topic_configs(given)
    return given


def _check_replication_factor(factor: int, brokers: int) -> None:
    if factor < 1:
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if factor > brokers:
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {factor} time(s): The target replication factor "
            f"of {factor} cannot be reached because only {brokers} broker(s) are registered.",
        )


def _check_partitions_count(count: int) -> None:
    if count > PARTITIONS_PER_REQUEST_MAX:
        raise KafkaError(
            ErrorCode.policy_violation, "Excessively large number of partitions per request."
        )


def _replicas_problem(replicas: tuple[int, ...], brokers: Collection[int]) -> str | None:
    """What is wrong with the replicas of one partition, None if nothing is."""
    if not replicas:
        return "an empty replica list."
    unknown = [replica for replica in replicas if replica not in brokers]
    if unknown:
        return f"broker {unknown[0]}, but no such broker is registered."
    repeated = [replica for replica in replicas if replicas.count(replica) > 1]
    return f"the broker {repeated[0]} more than once." if repeated else None


def _check_assignments(
    assignments: Mapping[int, tuple[int, ...]],
    brokers: Collection[int],
    *,
    first: int,
    factor: int = 0,
) -> dict[int, tuple[int, ...]]:
    if sorted(assignments) != list(range(first, first + len(assignments))):
        raise KafkaError(
            ErrorCode.invalid_replica_assignment,
            "partitions should be a consecutive 0-based integer sequence",
        )
    _check_partitions_count(len(assignments))
    for replicas in assignments.values():
        problem = _replicas_problem(replicas, brokers)
        if problem is not None:
            raise KafkaError(
                ErrorCode.invalid_replica_assignment,
                f"The manual partition assignment includes {problem}",
            )
        _check_replication_factor(len(replicas), len(brokers))
    factors = {len(replicas) for replicas in assignments.values()} | ({factor} if factor else set())
    if len(factors) > 1:
        raise KafkaError(
            ErrorCode.invalid_replica_assignment,
            f"Inconsistent replication factor between partitions: {sorted(factors)}.",
        )
    return {partition: tuple(replicas) for partition, replicas in sorted(assignments.items())}
