"""Writes which brokers hold a topic's partitions, and the moves under way, into its znode."""

from __future__ import annotations

from collections.abc import Mapping

from local_cluster.controller.active.cluster_reader import seen_topic
from local_cluster.controller.decisions.reassignments import PlannedReplicas
from local_cluster.controller.model import znodes
from local_cluster.controller.model.cluster_state import ClusterState, SeenTopic
from local_cluster.controller.zk.coordination import CommitConflict, Coordination, SetPayload
from local_cluster.controller.zk.term import CONFLICTS_MAX, Term
from local_cluster.wire.errors import ErrorCode, KafkaError


class ReplicaWriter:
    """Writes for one term."""

    def __init__(self, coordination: Coordination, term: Term) -> None:
        self._coordination = coordination
        self._term = term

    async def write(
        self, name: str, plans: Mapping[int, PlannedReplicas], state: ClusterState
    ) -> SeenTopic | KafkaError:
        """Write the replicas of some partitions of a topic; the topic as it then is.

        Raises Fenced or CoordinationUnavailable.
        """
        path = znodes.topic_path(name)
        for _ in range(CONFLICTS_MAX):
            znode = await self._coordination.read(path)
            topic = state.topics.get(name)
            if znode is None or topic is None:
                return KafkaError(ErrorCode.unknown_topic_or_partition)
            stored = znodes.decode_topic(znode.payload)
            moving = {i: p.reassignment for i, p in plans.items() if p.reassignment is not None}
            kept = stored.replicas.keys() - plans.keys()
            changed = znodes.TopicAssignment(
                topic.topic_id,
                {**stored.replicas, **{index: plan.replicas for index, plan in plans.items()}},
                {i: r for i, r in stored.adding.items() if i in kept}
                | {i: r.adding for i, r in moving.items() if r.adding},
                {i: r for i, r in stored.removing.items() if i in kept}
                | {i: r.removing for i, r in moving.items() if r.removing},
            )
            if changed != stored:
                try:
                    await self._term.commit(
                        self._coordination,
                        (SetPayload(path, znodes.encode_topic(changed), znode.version),),
                    )
                except CommitConflict:
                    continue
            return seen_topic(changed, topic.configs)
        return KafkaError(ErrorCode.request_timed_out, f"{path} changes too fast")
