"""What the active controller knows; decisions/fsm.py decides from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from local_cluster.controller.model.cluster_image import (
    BrokerEndpoints,
    OfflineReplicas,
    TopicState,
)

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """A topic that is being deleted."""

    topic: TopicState
    waiting: frozenset[int]
    """Brokers that have not confirmed yet that their replicas are deleted."""


class Reassignment(NamedTuple):
    """Replicas of one partition that are added and removed, as in the topic znode (KIP-455)."""

    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The controller's knowledge of the cluster; its fields are never changed in place."""

    brokers: Mapping[int, BrokerEndpoints] = field(default_factory=dict)
    topics: Mapping[str, TopicState] = field(default_factory=dict)
    deletions: Mapping[str, TopicDeletion] = field(default_factory=dict)
    restarted_leaders: frozenset[TopicPartition] = frozenset()
    """Partitions whose leader was elected under an earlier broker epoch. An entry stays until a
    new state is written, so that it survives a write that loses to another writer."""
    shutting_down: frozenset[int] = frozenset()
    """Brokers that shut down, or whose process is gone while the session lives. They lead nothing
    that another replica can lead."""
    restarted_replicas: frozenset[tuple[TopicPartition, int]] = frozenset()
    """In-sync replicas whose broker restarted since the state was written. They may have lost
    unflushed records. Empty with `fsync`; an entry stays as one of `restarted_leaders` does."""
    fsync: bool = True
    """Whether a replica reports only fsynced offsets (`flush: fsync`): no crash loses them."""
    reassigning: Mapping[TopicPartition, Reassignment] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Dynamic configs by broker id, as text, or "<default>"."""
    entity_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Configs of groups and client metrics by path below /config, such as "groups/etl"."""
    controller_id: int = -1
    """The broker that is the controller; its dynamic configs give the defaults of topics."""
    unclean_default: bool = False
    """unclean.leader.election.enable in its settings, for topics that do not set it."""
    offline: OfflineReplicas = field(default_factory=dict)
    """Replicas that live brokers reported as offline."""
    unreported: frozenset[int] = frozenset()
    """Live brokers that have not reported their offline replicas to this controller since they
    registered. A report without any offline replica counts."""

    def online_brokers(self, key: TopicPartition) -> Collection[int]:
        """Return the live brokers, without those whose replica of the partition is offline."""
        if not self.offline:
            return self.brokers.keys()
        return [each for each in self.brokers if key not in self.offline.get(each, ())]
