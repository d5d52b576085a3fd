"""Brokers, topics and partitions, and one image of them all.

Everything here is immutable. An image may be handed to another task, compared by identity and kept.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

NO_LEADER: Final = -1
NO_CONTROLLER: Final = -1
NO_EPOCH: Final = -1
UNWRITTEN: Final = -1
"""`zk_version` of a partition whose state znode does not exist yet."""

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})


def frozen_mapping(values: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return a read-only copy: no reader can change a shared image."""
    return MappingProxyType(dict(values))


@dataclass(frozen=True, slots=True)
class BrokerEndpoints:
    """One registered broker and the addresses of its listeners."""

    id: int
    rack: str | None
    listeners: Mapping[str, tuple[str, int]]
    """(host, port) by listener name, as advertised."""
    broker_epoch: int = NO_EPOCH
    """Creation zxid of the registration; each restart of the broker gets a higher one."""
    security_protocols: Mapping[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        """The host of the first listener. Replicas on one host fail together."""
        return next((host for host, _ in self.listeners.values()), "")


class PartitionState(NamedTuple):
    """Leader and in-sync replicas of one partition."""

    partition: int
    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    """Version of the state znode, for conditional writes; UNWRITTEN before the first one."""


def unwritten_partition(partition: int, replicas: Iterable[int]) -> PartitionState:
    """Return a partition that has no state in ZooKeeper yet."""
    return PartitionState(partition, tuple(replicas), NO_LEADER, NO_EPOCH, (), UNWRITTEN)


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic as every broker knows it."""

    name: str
    topic_id: uuid.UUID
    partitions: Mapping[int, PartitionState]
    configs: Mapping[str, str]

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


OfflineReplicas = Mapping[int, frozenset[tuple[str, int]]]
"""By broker id: the partitions whose replica on that live broker is offline."""


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The metadata of the whole cluster at one moment of one controller's term."""

    controller_id: int
    controller_epoch: int
    sequence: int
    """Grows by one with each image of a controller epoch."""
    brokers: Mapping[int, BrokerEndpoints]
    topics: Mapping[str, TopicState]
    deletions: Mapping[str, uuid.UUID]
    """Delete records: brokers delete their replicas of these topic ids."""
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Dynamic configs by broker id, as text, or "<default>"."""
    entity_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Configs of groups and client metrics by path below /config, such as "groups/etl"."""
    offline: OfflineReplicas = field(default_factory=dict)
    is_whole: bool = False
    """Whether `topics` and `deletions` together name every topic. False after a topic was
    unreadable, or vanished without having been deleted."""


class ReplicaReport(NamedTuple):
    """What the failed disks of a live broker keep it from doing."""

    offline: frozenset[tuple[str, int]] = frozenset()
    """Partitions whose replica on this broker neither leads nor follows."""
    undeleted: frozenset[uuid.UUID] = frozenset()
    """Ids of deleted topics that may still have replicas on a failed disk."""


ALL_WELL: Final = ReplicaReport()
"""The report of a broker whose disks all work."""


@dataclass(frozen=True, slots=True)
class ClusterDelta:
    """The difference from one image to the next; or, with `full`, a whole image."""

    full: bool
    controller_id: int
    controller_epoch: int
    sequence: int
    base_sequence: int
    """Sequence of the image that this difference starts from; meaningless when `full`."""
    broker_epoch: int
    """The broker epoch that this was made for; a broker that restarted since refuses it."""
    brokers: Mapping[int, BrokerEndpoints | None]
    topics: Mapping[str, TopicState | None]
    deletions: Mapping[str, uuid.UUID]
    broker_configs: Mapping[str, Mapping[str, str] | None] = field(default_factory=dict)
    entity_configs: Mapping[str, Mapping[str, str] | None] = field(default_factory=dict)
    offline: Mapping[int, frozenset[tuple[str, int]] | None] = field(default_factory=dict)
    is_whole: bool = False
    """`ClusterImage.is_whole` of the image that this leads to."""


def difference(base: ClusterImage | None, image: ClusterImage, broker_epoch: int) -> ClusterDelta:
    """Return the delta from `base` to `image`; a full one without a base of the same term."""
    if base is None or base.controller_epoch != image.controller_epoch:
        return ClusterDelta(
            full=True,
            controller_id=image.controller_id,
            controller_epoch=image.controller_epoch,
            sequence=image.sequence,
            base_sequence=-1,
            broker_epoch=broker_epoch,
            brokers=image.brokers,
            topics=image.topics,
            deletions=image.deletions,
            broker_configs=image.broker_configs,
            entity_configs=image.entity_configs,
            offline=image.offline,
            is_whole=image.is_whole,
        )
    return ClusterDelta(
        full=False,
        controller_id=image.controller_id,
        controller_epoch=image.controller_epoch,
        sequence=image.sequence,
        base_sequence=base.sequence,
        broker_epoch=broker_epoch,
        brokers=_changed(base.brokers, image.brokers),
        topics=_changed(base.topics, image.topics),
        deletions={
            name: topic_id
            for name, topic_id in image.deletions.items()
            if base.deletions.get(name) != topic_id
        },
        broker_configs=_changed(base.broker_configs, image.broker_configs),
        entity_configs=_changed(base.entity_configs, image.entity_configs),
        offline=_changed(base.offline, image.offline),
        is_whole=image.is_whole,
    )


def _changed(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return new and different values by key, None for keys that are gone."""
    changed: dict[Any, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        # Identity first: an image shares unchanged values with the image before it.
        if old is not value and old != value:
            changed[key] = value
    return changed
