"""SHELL: creates and deletes topics, adds partitions, starts and cancels reassignments.

Runs under the controller's lock. A topic's configs and assignment are one fenced commit. The state
machine then elects its leaders, as for a topic that an outside tool wrote.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Mapping, Sequence

from local_cluster.controller.active.assignment_writer import AssignmentWriter
from local_cluster.controller.active.cluster_reader import seen_topic
from local_cluster.controller.active.event_applier import EventApplier
from local_cluster.controller.decisions import fsm
from local_cluster.controller.decisions.reassignments import (
    PlannedReplicas,
    ReassignmentRequest,
    plan_reassignment,
)
from local_cluster.controller.decisions.topic_planner import (
    TopicPlan,
    TopicPlanner,
    plan_partitions,
)
from local_cluster.controller.model import config_znodes, events, topic_znodes, znode_paths
from local_cluster.controller.model.cluster_state import TopicPartition
from local_cluster.controller.model.events import SeenTopic
from local_cluster.controller.model.topic_requests import (
    ChargePartitions,
    PartitionsSpec,
    TopicCreation,
    TopicSpec,
)
from local_cluster.controller.model.znode_json import UnreadableZnodeError
from local_cluster.controller.zk.bulk_reads import gather_bounded
from local_cluster.controller.zk.coordination import (
    CommitConflict,
    Conflict,
    Coordination,
    CoordinationUnavailable,
    Create,
    SetPayload,
    ZkOp,
)
from local_cluster.controller.zk.term import CONFLICTS_MAX, Term
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import ErrorCode, KafkaError


class TopicAdmin:
    """The topic requests of one term. A method raises Fenced, or CoordinationUnavailable if the
    outcome is unknown."""

    def __init__(
        self,
        coordination: Coordination,
        settings: BrokerSettings,
        term: Term,
        applier: EventApplier,
        assignments: AssignmentWriter,
        new_uuid: Callable[[], uuid.UUID],
    ) -> None:
        self._coordination = coordination
        self._settings = settings
        self._term = term
        self._applier = applier
        self._assignments = assignments
        self._new_uuid = new_uuid

    async def create_topics(
        self, specs: Sequence[TopicSpec], validate_only: bool, charge: ChargePartitions
    ) -> list[TopicCreation]:
        """Create the valid topics; return one result per spec, in order."""
        results: list[TopicCreation | TopicPlan] = []
        planner = TopicPlanner(self._applier.state, self._settings)
        for spec in specs:
            try:
                plan = planner.plan(spec, self._new_uuid())
                charge(len(plan.replicas))
                results.append(plan)
            except KafkaError as error:
                results.append(TopicCreation(spec.name, error))
        plans = [result for result in results if isinstance(result, TopicPlan)]
        would_be = events.TopicsSeen({plan.name: _seen(plan) for plan in plans})
        planned = fsm.step(self._applier.state, would_be).state
        errors: dict[str, KafkaError | None] = {}
        if not validate_only:
            made = await gather_bounded(plans, self._create_topic)
            errors = {plan.name: error for plan, error in made}
            created = {plan.name: _seen(plan) for plan in plans if errors[plan.name] is None}
            await self._applier.apply(events.TopicsSeen(created))
        topics = {**planned.topics, **self._applier.state.topics}
        return [
            result
            if isinstance(result, TopicCreation)
            else TopicCreation(result.name, errors.get(result.name), topics[result.name])
            for result in results
        ]

    async def _create_topic(self, plan: TopicPlan) -> KafkaError | None:
        config_path = znode_paths.topic_config_path(plan.name)
        config = config_znodes.encode_config(plan.configs)
        topic = Create(
            znode_paths.topic_path(plan.name),
            topic_znodes.encode_topic(
                topic_znodes.TopicAssignment(plan.topic_id, plan.replicas, {}, {})
            ),
        )
        for _ in range(CONFLICTS_MAX):
            # A tool may have removed a topic and left its configs: replace them, as Kafka does.
            left = await self._coordination.read(config_path)
            first: ZkOp = (
                Create(config_path, config)
                if left is None
                else SetPayload(config_path, config, left.version)
            )
            try:
                await self._term.commit(self._coordination, (first, topic))
            except CommitConflict as conflict:
                if conflict.op is not topic:
                    continue
                return KafkaError(
                    ErrorCode.topic_already_exists, f"Topic '{plan.name}' already exists."
                )
            return None
        return KafkaError(ErrorCode.request_timed_out, f"other writers keep changing {config_path}")

    async def delete_topics(
        self, names: Sequence[str], charge: ChargePartitions
    ) -> dict[str, KafkaError | None]:
        """Mark the known topics for deletion; return one result per name."""
        state = self._applier.state
        errors: dict[str, KafkaError | None] = {}
        marked = []
        for name in names:
            known = name in state.topics or name in state.deletions
            errors[name] = None if known else KafkaError(ErrorCode.unknown_topic_or_partition)
            try:
                if name in state.topics:
                    charge(len(state.topics[name].partitions))
            except KafkaError as error:
                errors[name] = error
            if errors[name] is None:
                marked.append(name)
        for name in marked:
            try:
                await self._term.commit(
                    self._coordination, (Create(znode_paths.delete_topic_path(name)),)
                )
            except CommitConflict as conflict:
                if conflict.conflict is not Conflict.NODE_EXISTS:
                    raise CoordinationUnavailable(str(conflict)) from conflict
        await self._applier.apply(events.DeletionsMarked(frozenset(marked)))
        return errors

    async def _add_partitions(
        self, name: str, added: Mapping[int, tuple[int, ...]]
    ) -> KafkaError | None:
        path = znode_paths.topic_path(name)
        for _ in range(CONFLICTS_MAX):
            znode = await self._coordination.read(path)
            if znode is None:
                return KafkaError(ErrorCode.unknown_topic_or_partition)
            try:
                stored = topic_znodes.decode_topic(znode.payload)
            except UnreadableZnodeError as error:
                return KafkaError(ErrorCode.unknown_server_error, f"{path} is unreadable: {error}")
            if stored.replicas.keys() & added.keys():
                return KafkaError(ErrorCode.invalid_partitions, "partitions were just added")
            grown = dataclasses.replace(stored, replicas={**stored.replicas, **added})
            try:
                await self._term.commit(
                    self._coordination,
                    (SetPayload(path, topic_znodes.encode_topic(grown), znode.version),),
                )
            except CommitConflict:
                continue
            topic = self._applier.state.topics[name]
            await self._applier.apply(events.TopicsSeen({name: seen_topic(grown, topic.configs)}))
            return None
        return KafkaError(ErrorCode.request_timed_out, f"other writers keep changing {path}")

    async def alter_reassignments(
        self, requests: Sequence[ReassignmentRequest], *, may_change_factor: bool
    ) -> dict[TopicPartition, KafkaError | None]:
        """Start or cancel reassignments; return one result per request."""
        results: dict[TopicPartition, KafkaError | None] = {}
        planned: dict[str, dict[int, PlannedReplicas]] = {}
        for request in requests:
            key = (request.topic, request.partition)
            try:
                plan = plan_reassignment(
                    self._applier.state, request, may_change_factor=may_change_factor
                )
            except KafkaError as error:
                results[key] = error
            else:
                results[key] = None
                planned.setdefault(request.topic, {})[request.partition] = plan
        for name, plans in planned.items():
            seen = await self._assignments.write(name, plans, self._applier.state)
            if isinstance(seen, KafkaError):
                results |= dict.fromkeys(((name, index) for index in plans), seen)
            else:
                await self._applier.apply(events.TopicsSeen({name: seen}))
        return results

    async def create_partitions(
        self, specs: Sequence[PartitionsSpec], validate_only: bool, charge: ChargePartitions
    ) -> dict[str, KafkaError | None]:
        """Add partitions; return one result per topic."""
        errors: dict[str, KafkaError | None] = {}
        for spec in specs:
            try:
                added = plan_partitions(spec, self._applier.state)
                charge(len(added))
            except KafkaError as error:
                errors[spec.topic] = error
                continue
            errors[spec.topic] = (
                None if validate_only else await self._add_partitions(spec.topic, added)
            )
        return errors


def _seen(plan: TopicPlan) -> SeenTopic:
    return SeenTopic(plan.topic_id, plan.replicas, plan.configs)
