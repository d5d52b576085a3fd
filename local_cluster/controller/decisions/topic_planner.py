"""Plans for topics and partitions to create, or a refusal with a code. Pure.

Texts and the order of the checks follow Kafka 4.3's ReplicationControlManager.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from local_cluster.controller.decisions.placement import load_of, place, sites_of
from local_cluster.controller.model.cluster_state import ClusterState
from local_cluster.controller.model.topic_requests import (
    DEFAULT,
    PartitionsSpec,
    TopicSpec,
    topic_name_problem,
)
from local_cluster.log.config.log_config import validate_topic_configs
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import ErrorCode, KafkaError

PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""The limit of Kafka's controller."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic that may be created."""

    name: str
    topic_id: uuid.UUID
    replicas: Mapping[int, tuple[int, ...]]
    configs: Mapping[str, str]


class TopicPlanner:
    """The topics of one request: each is checked and placed with regard to those planned before.

    The existing topics are counted once per request, not once per topic.
    """

    def __init__(self, state: ClusterState, settings: BrokerSettings) -> None:
        self._state = state
        self._settings = settings
        self._sites = sites_of(state.brokers)
        self._load = load_of(state.topics.values())
        self._planned: set[str] = set()
        self._by_folded_name: dict[str, str] = {}
        for name in sorted(state.topics, reverse=True):
            self._by_folded_name[_folded(name)] = name  # the first of several is reported

    def plan(self, spec: TopicSpec, topic_id: uuid.UUID) -> TopicPlan:
        """Check a spec and place its replicas. A spec that raises KafkaError is not planned."""
        self._check_name(spec.name)
        configs = _check_configs(spec.configs)
        replicas = self._replicas(spec)
        self._planned.add(spec.name)
        self._by_folded_name.setdefault(_folded(spec.name), spec.name)
        self._load.add(replicas.values())
        return TopicPlan(spec.name, topic_id, replicas, configs)

    def _replicas(self, spec: TopicSpec) -> dict[int, tuple[int, ...]]:
        brokers = self._state.brokers
        if spec.assignments:
            if spec.partitions != DEFAULT or spec.replication_factor != DEFAULT:
                raise KafkaError(
                    ErrorCode.invalid_request,
                    "A manual partition assignment was specified, but "
                    + ("numPartitions" if spec.partitions != DEFAULT else "replication factor")
                    + " was not set to -1.",
                )
            return _check_assignments(spec.assignments, brokers.keys(), first=0)
        partitions = spec.partitions
        if partitions == DEFAULT:
            partitions = self._settings.config_int("num.partitions", 1)
        if partitions < 1:
            raise KafkaError(
                ErrorCode.invalid_partitions,
                "Number of partitions was set to an invalid non-positive value.",
            )
        _check_partitions_count(partitions)
        factor = spec.replication_factor
        if factor == DEFAULT:
            factor = self._settings.config_int("default.replication.factor", 1)
        _check_replication_factor(factor, len(brokers))
        none = load_of(())
        return place(range(partitions), factor, self._sites, topic=none, cluster=self._load)

    def _check_name(self, name: str) -> None:
        problem = topic_name_problem(name)
        if problem is not None:
            raise KafkaError(ErrorCode.invalid_topic_exception, problem)
        if name in self._state.topics or name in self._planned:
            raise KafkaError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
        if name in self._state.deletions:
            raise KafkaError(
                ErrorCode.topic_already_exists, f"Topic '{name}' is marked for deletion."
            )
        # Metric names turn '.' into '_', so two such topics would share them.
        other = self._by_folded_name.get(_folded(name))
        if other is not None:
            raise KafkaError(
                ErrorCode.invalid_topic_exception,
                f"Topic '{name}' collides with existing topic: {other}",
            )


def _folded(name: str) -> str:
    return name.replace(".", "_")


def plan_partitions(spec: PartitionsSpec, state: ClusterState) -> dict[int, tuple[int, ...]]:
    """Return the replicas of the partitions to add. Raises KafkaError."""
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
    """Return what is wrong with the replicas of one partition, None if nothing is."""
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
