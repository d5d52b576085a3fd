"""SHELL: writes the replicas of partitions, and reassignments in progress, into the topic znode."""

from __future__ import annotations

from collections.abc import Mapping

from local_cluster.controller.active.cluster_reader import seen_topic
from local_cluster.controller.decisions.reassignments import PlannedReplicas
from local_cluster.controller.model import topic_znodes, znode_paths
from local_cluster.controller.model.cluster_state import ClusterState
from local_cluster.controller.model.events import SeenTopic
from local_cluster.controller.model.znode_json import UnreadableZnodeError
from local_cluster.controller.zk.coordination import CommitConflict, Coordination, SetPayload
from local_cluster.controller.zk.term import CONFLICTS_MAX, Term
from local_cluster.wire.errors import ErrorCode, KafkaError


class AssignmentWriter:
    """The assignment writes of one term."""

    def __init__(self, coordination: Coordination, term: Term) -> None:
        self._coordination = coordination
        self._term = term

    async def write(
        self, name: str, plans: Mapping[int, PlannedReplicas], state: ClusterState
    ) -> SeenTopic | KafkaError:
        """Write the replicas of some partitions of a topic; return the topic after the write.

        Raises Fenced or CoordinationUnavailable.
        """
        path = znode_paths.topic_path(name)
        for _ in range(CONFLICTS_MAX):
            znode = await self._coordination.read(path)
            topic = state.topics.get(name)
            if znode is None or topic is None:
                return KafkaError(ErrorCode.unknown_topic_or_partition)
            try:
                stored = topic_znodes.decode_topic(znode.payload)
            except UnreadableZnodeError as error:
                return KafkaError(ErrorCode.unknown_server_error, f"{path} is unreadable: {error}")
            moving = {i: p.reassignment for i, p in plans.items() if p.reassignment is not None}
            kept = stored.replicas.keys() - plans.keys()
            changed = topic_znodes.TopicAssignment(
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
                        (SetPayload(path, topic_znodes.encode_topic(changed), znode.version),),
                    )
                except CommitConflict:
                    continue
            return seen_topic(changed, topic.configs)
        return KafkaError(ErrorCode.request_timed_out, f"other writers keep changing {path}")
