"""What the controller knows, what happens to it, and what it may do: the nouns of fsm.py."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from local_cluster.controller.model.cluster_image import (
    BrokerEndpoints,
    OfflineReplicas,
    PartitionState,
    TopicState,
)

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Deletion:
    """A topic on its way out."""

    topic: TopicState
    waiting: frozenset[int]
    """Brokers that have not yet said that their replicas are gone."""


class Reassignment(NamedTuple):
    """Replicas of one partition that come and go, as the topic znode says (KIP-455)."""

    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What the controller knows; its fields are never changed in place."""

    brokers: Mapping[int, BrokerEndpoints] = field(default_factory=dict)
    topics: Mapping[str, TopicState] = field(default_factory=dict)
    deletions: Mapping[str, Deletion] = field(default_factory=dict)
    outlived: frozenset[TopicPartition] = frozenset()
    """Partitions whose leader was elected under an earlier registration of that broker. They stay
    here until a new state is written: a write that is overtaken must not make it forgotten."""
    leaving: frozenset[int] = frozenset()
    """Brokers that shut down, or whose process is gone though their session is not: to lead
    nothing that another can lead."""
    forgetful: frozenset[tuple[TopicPartition, int]] = frozenset()
    """In-sync replicas whose broker was started again since the state was written, and may have
    lost what it had not flushed; kept as `outlived` is."""
    keeps_tails: bool = True
    """Whether what a replica reported survives any crash of its broker (`flush: fsync`)."""
    reassigning: Mapping[TopicPartition, Reassignment] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Dynamic configs by broker id, as text, or "<default>"."""
    unclean_default: bool = False
    """unclean.leader.election.enable where the topic says nothing."""
    offline: OfflineReplicas = field(default_factory=dict)
    """What live brokers said that their disks do not let them serve."""
    unheard: frozenset[int] = frozenset()
    """Live brokers that have not said that yet, all being well included, in their run and to this
    controller."""

    def able(self, key: TopicPartition) -> Collection[int]:
        """Live brokers, without those whose replica of a partition is offline."""
        if not self.offline:
            return self.brokers.keys()
        return [each for each in self.brokers if key not in self.offline.get(each, ())]


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
    """Everything, as read at the begin of a term or after a lost connection."""

    brokers: Mapping[int, BrokerEndpoints]
    topics: Mapping[str, TopicState]
    marked: frozenset[str] = frozenset()
    """Names under /admin/delete_topics."""
    outlived: frozenset[TopicPartition] = frozenset()
    """Partitions whose leader registered anew after the state was written."""
    forgetful: frozenset[tuple[TopicPartition, int]] = frozenset()
    """In-sync replicas that did, where that matters."""
    reassigning: Mapping[TopicPartition, Reassignment] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    is_whole: bool = True
    """Whether every topic that is named could be read."""


@dataclass(frozen=True, slots=True)
class BrokersSeen:
    """All registrations."""

    brokers: Mapping[int, BrokerEndpoints]


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """Some topics, None where the znode is gone."""

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
class StatesWritten:
    """Our writes, with the versions they got."""

    states: Mapping[TopicPartition, PartitionState]


@dataclass(frozen=True, slots=True)
class StatesRead:
    """States that somebody else wrote (a leader its ISR, a controller before us)."""

    states: Mapping[TopicPartition, PartitionState]


@dataclass(frozen=True, slots=True)
class BrokerLeaving:
    """A broker is about to shut down and asks to be relieved."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class BrokerAnswering:
    """Nobody listens any more where a broker was reached, in the run of that epoch; or again."""

    broker_id: int
    broker_epoch: int
    answers: bool


@dataclass(frozen=True, slots=True)
class ReplicasReported:
    """All partitions whose replicas a broker cannot serve, in the run of that epoch."""

    broker_id: int
    broker_epoch: int
    offline: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ElectionsWanted:
    """Somebody asks for elections of the preferred leaders, or of any live replica."""

    partitions: tuple[TopicPartition, ...]
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class DeletionsMarked:
    """Names under /admin/delete_topics."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class ReplicasDeleted:
    """A broker says that it holds no replica of these topic ids any more."""

    broker_id: int
    topic_ids: frozenset[uuid.UUID]


@dataclass(frozen=True, slots=True)
class TopicErased:
    """The topic's znodes are gone."""

    name: str


Event = (
    Loaded
    | BrokersSeen
    | TopicsSeen
    | ConfigsSeen
    | BrokerConfigsSeen
    | StatesWritten
    | StatesRead
    | BrokerLeaving
    | BrokerAnswering
    | ReplicasReported
    | ElectionsWanted
    | DeletionsMarked
    | ReplicasDeleted
    | TopicErased
)


# -- effects -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WriteState:
    """Write a partition's state if its znode still has `state.zk_version`."""

    topic: str
    state: PartitionState


@dataclass(frozen=True, slots=True)
class EraseTopic:
    """Remove the topic's znodes, and its delete mark last."""

    name: str


@dataclass(frozen=True, slots=True)
class ClearMark:
    """Remove a delete mark that names no topic."""

    name: str


@dataclass(frozen=True, slots=True)
class FinishReassignments:
    """Write the replicas of partitions whose reassignment is done into the topic's znode."""

    topic: str
    replicas: Mapping[int, tuple[int, ...]]


Effect = WriteState | EraseTopic | ClearMark | FinishReassignments


@dataclass(frozen=True, slots=True)
class Step:
    """The state after an event, and what must be written because of it."""

    state: ClusterState
    effects: tuple[Effect, ...] = ()
