"""The nouns of the control plane: brokers, topics, partitions, and one image of them all.

Everything here is immutable, so an image may be handed to another task, compared by identity
and kept for as long as somebody needs it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
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
    """A read-only view, so that a shared image cannot be changed by one of its readers."""
    return MappingProxyType(dict(values))


@dataclass(frozen=True, slots=True)
class BrokerEndpoints:
    """One live broker: where each of its listeners is reached."""

    id: int
    rack: str | None
    listeners: Mapping[str, tuple[str, int]]
    """(host, port) by listener name, as advertised."""
    broker_epoch: int = NO_EPOCH
    """Creation zxid of the registration: it tells one run of a broker from the next."""
    security_protocols: Mapping[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        """The host of the first listener; replicas on one host fail together."""
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
"""Partitions whose replica on a live broker is offline, by broker id."""


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """What every broker is to know, at one moment of one controller's term."""

    controller_id: int
    controller_epoch: int
    sequence: int
    """Grows by one per image within a controller epoch."""
    brokers: Mapping[int, BrokerEndpoints]
    topics: Mapping[str, TopicState]
    deletions: Mapping[str, uuid.UUID]
    """Positive delete records: replicas of these topic ids are to be deleted."""
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Dynamic configs by broker id, as text, or "<default>"."""
    offline: OfflineReplicas = field(default_factory=dict)
    is_whole: bool = False
    """Whether every topic there is is among `topics` or `deletions`: none was unreadable, and none
    vanished without having been deleted."""


class ReplicaReport(NamedTuple):
    """What a live broker cannot do of what an image asks: its disks are not all well."""

    offline: frozenset[tuple[str, int]] = frozenset()
    """Partitions whose replica here is neither led nor followed."""
    undeleted: frozenset[uuid.UUID] = frozenset()
    """Ids of deleted topics of which replicas may be left where it cannot reach them."""


ALL_WELL: Final = ReplicaReport()


@dataclass(frozen=True, slots=True)
class ClusterDelta:
    """The difference from one image to the next, or (`full`) a whole image."""

    full: bool
    controller_id: int
    controller_epoch: int
    sequence: int
    base_sequence: int
    """The image that this difference starts from; meaningless when `full`."""
    broker_epoch: int
    """The run of the broker that this was made for; a later run must refuse it."""
    brokers: Mapping[int, BrokerEndpoints | None]
    topics: Mapping[str, TopicState | None]
    deletions: Mapping[str, uuid.UUID]
    broker_configs: Mapping[str, Mapping[str, str] | None] = field(default_factory=dict)
    offline: Mapping[int, frozenset[tuple[str, int]] | None] = field(default_factory=dict)
    is_whole: bool = False
    """As that of the image that this leads to."""


def difference(base: ClusterImage | None, image: ClusterImage, broker_epoch: int) -> ClusterDelta:
    """What turns `base` into `image`; a full delta where there is no base of the same term."""
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
        offline=_changed(base.offline, image.offline),
        is_whole=image.is_whole,
    )


def _changed(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> dict[Any, Any]:
    """New or different values by key, None for keys that are gone."""
    changed: dict[Any, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        # Identity first: an image shares what did not change with the one before it.
        if old is not value and old != value:
            changed[key] = value
    return changed
