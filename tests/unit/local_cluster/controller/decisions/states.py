"""Cluster states for tests of decisions."""

from __future__ import annotations

from local_cluster.controller.decisions.fsm import step
from local_cluster.controller.model.cluster_image import (
    TopicState,
)
from local_cluster.controller.model.cluster_state import ClusterState
from local_cluster.controller.model.events import (
    SeenTopic,
    StatesWritten,
    Step,
    WriteState,
)
from tests.unit.local_cluster.controller.samples import (
    brokers,
    topic_id,
)


def state_of(live: tuple[int, ...], *topics: TopicState) -> ClusterState:
    return ClusterState(brokers(*live), {each.name: each for each in topics})


def written(done: Step) -> ClusterState:
    """Return the state after the decided writes."""
    writes = [effect for effect in done.effects if isinstance(effect, WriteState)]
    return step(
        done.state, StatesWritten({(w.topic, w.state.partition): w.state for w in writes})
    ).state


def led(state: ClusterState) -> tuple[int, int, tuple[int, ...]]:
    """Return leader, epoch and ISR of partition 0 of topic a."""
    known = state.topics["a"].partitions[0]
    return known.leader, known.leader_epoch, known.isr


def seen(name: str, replicas: dict[int, tuple[int, ...]], **configs: str) -> SeenTopic:
    return SeenTopic(topic_id(name), replicas, configs)
