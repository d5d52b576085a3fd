"""How a topic goes: hidden when it is marked, erased when no broker holds a replica of it. Pure.

marked          the topic is known no more; every broker that holds a replica is waited for
replicas gone   a broker has deleted its replicas: one less
nobody left     the topic is erased from ZooKeeper, its delete mark last
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace

from local_cluster.controller.model.cluster_image import TopicState
from local_cluster.controller.model.cluster_state import (
    ClearMark,
    ClusterState,
    Deletion,
    Effect,
    EraseTopic,
    Step,
    TopicPartition,
)


def mark_deleted(state: ClusterState, names: Collection[str]) -> Step:
    """Delete these topics; a mark of one that is not known is cleared."""
    topics = dict(state.topics)
    deletions = dict(state.deletions)
    effects: list[Effect] = []
    for name in sorted(names):
        if name in deletions:
            continue
        topic = topics.pop(name, None)
        if topic is None:
            effects.append(ClearMark(name))
            continue
        holders = frozenset(r for p in topic.partitions.values() for r in p.replicas)
        deletions[name] = Deletion(topic, holders)
        if not holders:
            effects.append(EraseTopic(name))
    after = replace(
        state,
        topics=topics,
        deletions=deletions,
        outlived=of_topics(topics, state.outlived),
        forgetful=frozenset(each for each in state.forgetful if each[0][0] in topics),
        reassigning={key: each for key, each in state.reassigning.items() if key[0] in topics},
    )
    return Step(after, tuple(effects))


def count_down(state: ClusterState, broker_id: int, topic_ids: Collection[uuid.UUID]) -> Step:
    """A broker holds no replica of the topics of these ids any more."""
    deletions = dict(state.deletions)
    effects: list[Effect] = []
    for name, deletion in state.deletions.items():
        if deletion.topic.topic_id in topic_ids and broker_id in deletion.waiting:
            waiting = deletion.waiting - {broker_id}
            deletions[name] = Deletion(deletion.topic, waiting)
            if not waiting:
                effects.append(EraseTopic(name))
    if deletions == state.deletions:
        return Step(state)
    return Step(replace(state, deletions=deletions), tuple(effects))


def of_topics(
    topics: Mapping[str, TopicState], partitions: frozenset[TopicPartition]
) -> frozenset[TopicPartition]:
    """Those of the partitions whose topic is still there."""
    return frozenset(key for key in partitions if key[0] in topics)
