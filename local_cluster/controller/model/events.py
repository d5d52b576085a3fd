"""What happens to the controller (events), and what it writes because of that (effects).

decisions/fsm.py turns one event into the next state and its effects; active/event_applier.py runs
the effects.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from local_cluster.controller.model.cluster_image import (
    BrokerEndpoints,
    PartitionState,
    TopicState,
)
from local_cluster.controller.model.cluster_state import (
    ClusterState,
    Reassignment,
    TopicPartition,
)

# -- events --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SeenTopic:
    """A topic znode with its configs."""

    topic_id: uuid.UUID
    replicas: Mapping[int, tuple[int, ...]]
    configs: Mapping[str, str]
    reassigning: Mapping[int, Reassignment] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The whole cluster, read when a term begins or after a lost connection."""

    brokers: Mapping[int, BrokerEndpoints]
    topics: Mapping[str, TopicState]
    marked: frozenset[str] = frozenset()
    """Names under /admin/delete_topics."""
    restarted_leaders: frozenset[TopicPartition] = frozenset()
    """Partitions whose leader registered again after the state was written."""
    restarted_replicas: frozenset[tuple[TopicPartition, int]] = frozenset()
    """In-sync replicas whose broker did; empty with `flush: fsync`."""
    reassigning: Mapping[TopicPartition, Reassignment] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    entity_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    is_whole: bool = True
    """Whether every listed topic could be read."""


@dataclass(frozen=True, slots=True)
class BrokersSeen:
    """All registrations."""

    brokers: Mapping[int, BrokerEndpoints]


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """Some topics; None for a topic whose znode is gone."""

    topics: Mapping[str, SeenTopic | None]


@dataclass(frozen=True, slots=True)
class ConfigsSeen:
    """The configs of one topic."""

    topic: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BrokerConfigsSeen:
    """The dynamic configs of one broker, or of "<default>"."""

    entity: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EntityConfigsSeen:
    """The configs of one group or client metrics subscription, by path below /config."""

    entity: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StatesWritten:
    """States that this controller wrote, with their new znode versions."""

    states: Mapping[TopicPartition, PartitionState]


@dataclass(frozen=True, slots=True)
class StatesRead:
    """States that another writer wrote: a leader its ISR, or an earlier controller."""

    states: Mapping[TopicPartition, PartitionState]


@dataclass(frozen=True, slots=True)
class BrokerShuttingDown:
    """A broker asks for a controlled shutdown."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class BrokerReachable:
    """A broker that was reached under that epoch refuses connections; or accepts them again."""

    broker_id: int
    broker_epoch: int
    is_reachable: bool


@dataclass(frozen=True, slots=True)
class OfflineReplicasReported:
    """All offline replicas of a broker, as it reported them under that epoch."""

    broker_id: int
    broker_epoch: int
    offline: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ElectionsRequested:
    """Somebody requests preferred elections, or unclean ones."""

    partitions: tuple[TopicPartition, ...]
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class DeletionsMarked:
    """Names under /admin/delete_topics."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class ReplicasDeleted:
    """A broker confirms that it holds no replica of these topic ids."""

    broker_id: int
    topic_ids: frozenset[uuid.UUID]


@dataclass(frozen=True, slots=True)
class TopicPurged:
    """The znodes of a deleted topic are gone."""

    name: str


Event = (
    Loaded
    | BrokersSeen
    | TopicsSeen
    | ConfigsSeen
    | BrokerConfigsSeen
    | EntityConfigsSeen
    | StatesWritten
    | StatesRead
    | BrokerShuttingDown
    | BrokerReachable
    | OfflineReplicasReported
    | ElectionsRequested
    | DeletionsMarked
    | ReplicasDeleted
    | TopicPurged
)


# -- effects -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WriteState:
    """Write a partition's state if its znode still has `state.zk_version`."""

    topic: str
    state: PartitionState


@dataclass(frozen=True, slots=True)
class PurgeTopic:
    """Remove the znodes of a deleted topic, its deletion mark last."""

    name: str


@dataclass(frozen=True, slots=True)
class ClearDeletionMark:
    """Remove a deletion mark that names no topic."""

    name: str


@dataclass(frozen=True, slots=True)
class CompleteReassignments:
    """Write the final replicas of completed reassignments into the topic's znode."""

    topic: str
    replicas: Mapping[int, tuple[int, ...]]


Effect = WriteState | PurgeTopic | ClearDeletionMark | CompleteReassignments


@dataclass(frozen=True, slots=True)
class Step:
    """The state after an event, and the writes that follow from it."""

    state: ClusterState
    effects: tuple[Effect, ...] = ()
