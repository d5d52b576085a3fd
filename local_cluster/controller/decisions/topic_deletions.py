"""Deletion of topics. Pure.

marked      the topic is hidden; the controller waits for every broker that holds a replica
confirmed   a broker has deleted its replicas: one broker less to wait for
purged      no broker is left: the znodes are removed, the deletion mark last
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace

from local_cluster.controller.model.cluster_image import TopicState
from local_cluster.controller.model.cluster_state import ClusterState, TopicDeletion, TopicPartition
from local_cluster.controller.model.events import ClearDeletionMark, Effect, PurgeTopic, Step


def start_deletions(state: ClusterState, names: Collection[str]) -> Step:
    """Start to delete these topics; clear the marks of unknown topics."""
    topics = dict(state.topics)
    deletions = dict(state.deletions)
    effects: list[Effect] = []
    for name in sorted(names):
        if name in deletions:
            continue
        topic = topics.pop(name, None)
        if topic is None:
            effects.append(ClearDeletionMark(name))
            continue
        holders = frozenset(r for p in topic.partitions.values() for r in p.replicas)
        deletions[name] = TopicDeletion(topic, holders)
        if not holders:
            effects.append(PurgeTopic(name))
    after = replace(
        state,
        topics=topics,
        deletions=deletions,
        restarted_leaders=keep_topics(topics, state.restarted_leaders),
        restarted_replicas=frozenset(
            each for each in state.restarted_replicas if each[0][0] in topics
        ),
        reassigning={key: each for key, each in state.reassigning.items() if key[0] in topics},
    )
    return Step(after, tuple(effects))


def confirm_deleted(state: ClusterState, broker_id: int, topic_ids: Collection[uuid.UUID]) -> Step:
    """A broker holds no replica of these topic ids any more."""
    deletions = dict(state.deletions)
    effects: list[Effect] = []
    for name, deletion in state.deletions.items():
        if deletion.topic.topic_id in topic_ids and broker_id in deletion.waiting:
            waiting = deletion.waiting - {broker_id}
            deletions[name] = TopicDeletion(deletion.topic, waiting)
            if not waiting:
                effects.append(PurgeTopic(name))
    if deletions == state.deletions:
        return Step(state)
    return Step(replace(state, deletions=deletions), tuple(effects))


def keep_topics(
    topics: Mapping[str, TopicState], partitions: frozenset[TopicPartition]
) -> frozenset[TopicPartition]:
    """Return the partitions whose topic still exists."""
    return frozenset(key for key in partitions if key[0] in topics)
