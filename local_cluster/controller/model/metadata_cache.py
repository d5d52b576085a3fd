"""The cluster as one broker knows it: the read model behind Metadata and every handler.

Guarantees: the cache follows one controller at a time, so a deposed controller cannot bring back
an old leader. It refuses a delta

- of an older controller epoch than a delta, or ZooKeeper before the registration, has shown;
- for an earlier broker epoch of this broker;
- that is older than the last applied one.

A topic that is merely missing is *removed*; only a delete record makes it *deleted*.

Not here: where deltas come from (member/metadata_updates.py), what follows (replication/).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from local_cluster.controller.model.cluster_image import (
    NO_CONTROLLER,
    NO_EPOCH,
    BrokerEndpoints,
    ClusterDelta,
    OfflineReplicas,
    PartitionState,
    TopicState,
    frozen_mapping,
)
from local_cluster.controller.model.election_counts import ElectionCounts
from local_cluster.wire.errors import ErrorCode, KafkaError

__all__ = ["BrokerEndpoints", "Changes", "MetadataCache", "PartitionState", "TopicState"]


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of one delta, for the listeners of the cache."""

    topics: tuple[str, ...] = ()
    """New topics, and topics whose partitions, leaders or configs changed: see `cache.topics`."""
    removed: tuple[str, ...] = ()
    """Topics that are missing: stop serving them, keep their files."""
    deleted: Mapping[str, uuid.UUID] = field(default_factory=dict)
    """Topics whose replicas with this topic id have to be deleted; may repeat."""
    brokers: bool = False
    """A broker registered, went away or changed its addresses."""
    controller: bool = False
    """The controller changed, or is unknown."""
    broker_configs: bool = False
    """Dynamic configs of brokers changed."""
    entity_configs: bool = False
    """Configs of groups or client metrics changed."""
    is_first_of_term: bool = False
    """This is the first image of a controller's term that reaches this broker, a full one."""

    def __bool__(self) -> bool:
        return bool(
            self.topics
            or self.removed
            or self.deleted
            or self.brokers
            or self.controller
            or self.broker_configs
            or self.entity_configs
            or self.is_first_of_term
        )

    def after(self, earlier: Changes) -> Changes:
        """Merge these with the changes right before, for a listener that missed the earlier."""
        gone = {*self.removed, *self.deleted}
        return Changes(
            topics=tuple(
                dict.fromkeys((*(t for t in earlier.topics if t not in gone), *self.topics))
            ),
            removed=tuple(
                dict.fromkeys(
                    (*(t for t in earlier.removed if t not in self.topics), *self.removed)
                )
            ),
            deleted=frozen_mapping({**earlier.deleted, **self.deleted}),
            brokers=earlier.brokers or self.brokers,
            controller=earlier.controller or self.controller,
            broker_configs=earlier.broker_configs or self.broker_configs,
            entity_configs=earlier.entity_configs or self.entity_configs,
            is_first_of_term=earlier.is_first_of_term or self.is_first_of_term,
        )


class MetadataCache:
    """Read by handlers on the loop; only the control plane writes it, through `apply`.

    `brokers`, `offline`, `broker_configs` and `entity_configs` stay the same objects while they are
    equal, so a reader may keep what it has derived from them.
    """

    def __init__(self, own_id: int = NO_CONTROLLER) -> None:
        """`own_id` is the id of this broker."""
        self.own_id = own_id
        self.cluster_id: str | None = None
        self.controller_id: int = NO_CONTROLLER
        self.controller_epoch: int = NO_EPOCH
        self.broker_epoch: int = NO_EPOCH
        """Epoch of this broker's own registration; NO_EPOCH before the first one."""
        self.brokers: Mapping[int, BrokerEndpoints] = frozen_mapping({})
        self.topics: Mapping[str, TopicState] = frozen_mapping({})
        self.broker_configs: Mapping[str, Mapping[str, str]] = frozen_mapping({})
        """Dynamic configs by broker id, as text, or "<default>"."""
        self.entity_configs: Mapping[str, Mapping[str, str]] = frozen_mapping({})
        """Configs of groups and client metrics by path below /config, such as "groups/etl"."""
        self.offline: OfflineReplicas = frozen_mapping({})
        self.elections = ElectionCounts()
        """Elections while this broker was the controller."""
        self.is_whole = False
        """Whether the controller knows for sure that `topics` names every topic."""
        self._sequence = -1
        self._names_by_id: dict[int, str] = {}
        """Keyed by the id as a number, which hashes faster than a UUID."""

    def topic_by_id(self, topic_id: uuid.UUID) -> TopicState | None:
        """Return the topic with this id, or None."""
        name = self._names_by_id.get(topic_id.int)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        """Return the state of one partition, None if it is unknown."""
        state = self.topics.get(topic)
        return None if state is None else state.partitions.get(partition)

    def is_offline(self, broker_id: int, topic: str, partition: int) -> bool:
        """Return whether a replica is offline: its broker is away, or its disk failed."""
        return broker_id not in self.brokers or (topic, partition) in self.offline.get(
            broker_id, ()
        )

    def sequence_of(self, controller_epoch: int) -> int:
        """Return the sequence of the last image of that epoch; 0 if none was applied."""
        return max(self._sequence, 0) if controller_epoch == self.controller_epoch else 0

    def observe_controller(self, controller_id: int) -> Changes:
        """Note the broker id in the /controller znode; NO_CONTROLLER while there is none."""
        changed = controller_id != self.controller_id
        self.controller_id = controller_id
        return Changes(controller=changed)

    def observe_controller_epoch(self, controller_epoch: int) -> None:
        """Refuse controllers of earlier epochs from here on: another one was elected."""
        if controller_epoch > self.controller_epoch:
            self.controller_epoch = controller_epoch
            self._sequence = -1  # it counted images of the earlier term

    def apply(self, delta: ClusterDelta) -> Changes:
        """Apply a delta and return what it changed.

        Raises KafkaError, and changes nothing: stale_controller_epoch for an older term,
        stale_broker_epoch for another broker epoch; invalid_update_version if the delta does not
        start from the cached image (the sender then sends a full one).
        """
        self._check(delta)
        brokers = {} if delta.full else dict(self.brokers)
        topics = {} if delta.full else dict(self.topics)
        base = {} if delta.full else self.broker_configs
        configs = _updated(base, delta.broker_configs)
        base = {} if delta.full else self.entity_configs
        entity_configs = _updated(base, delta.entity_configs)
        for broker_id, broker in delta.brokers.items():
            if broker is None:
                brokers.pop(broker_id, None)
            else:
                brokers[broker_id] = broker
        for name, topic in delta.topics.items():
            if topic is None:
                topics.pop(name, None)
            else:
                topics[name] = topic
        offline = {} if delta.full else dict(self.offline)
        for broker_id, partitions in delta.offline.items():
            if partitions is None:
                offline.pop(broker_id, None)
            else:
                offline[broker_id] = partitions
        candidates = topics if delta.full else delta.topics
        before = self.topics
        changes = Changes(
            topics=tuple(
                name for name in candidates if name in topics and before.get(name) != topics[name]
            ),
            removed=tuple(
                name for name in before if name not in topics and name not in delta.deletions
            ),
            deleted=frozen_mapping(delta.deletions),
            brokers=dict(self.brokers) != brokers,
            controller=delta.controller_id != self.controller_id,
            broker_configs=dict(self.broker_configs) != configs,
            entity_configs=dict(self.entity_configs) != entity_configs,
            is_first_of_term=delta.full
            and (delta.controller_epoch != self.controller_epoch or self._sequence < 0),
        )
        if delta.controller_id == self.own_id:
            for name in changes.topics:
                if name in before:
                    self.elections.count(before[name], topics[name])
        self.controller_id = delta.controller_id
        self.controller_epoch = delta.controller_epoch
        self._sequence = delta.sequence
        if changes.brokers:
            self.brokers = frozen_mapping(brokers)
        self.topics = frozen_mapping(topics)
        if changes.broker_configs:
            self.broker_configs = frozen_mapping(configs)
        if changes.entity_configs:
            self.entity_configs = frozen_mapping(entity_configs)
        if dict(self.offline) != offline:
            self.offline = frozen_mapping(offline)
        self.is_whole = delta.is_whole
        self._names_by_id = {topic.topic_id.int: name for name, topic in topics.items()}
        return changes

    def _check(self, delta: ClusterDelta) -> None:
        if delta.controller_epoch < self.controller_epoch:
            raise KafkaError(
                ErrorCode.stale_controller_epoch,
                f"controller epoch {delta.controller_epoch} is older than {self.controller_epoch}",
            )
        if delta.broker_epoch != self.broker_epoch:
            raise KafkaError(
                ErrorCode.stale_broker_epoch,
                f"the delta is for broker epoch {delta.broker_epoch}, this broker has "
                f"{self.broker_epoch}",
            )
        same_term = delta.controller_epoch == self.controller_epoch
        if delta.full:
            if same_term and delta.sequence < self._sequence:
                raise KafkaError(
                    ErrorCode.invalid_update_version,
                    f"image {delta.sequence} is older than {self._sequence}",
                )
        elif not same_term or delta.base_sequence != self._sequence:
            raise KafkaError(
                ErrorCode.invalid_update_version,
                f"the delta starts from image {delta.base_sequence} of controller epoch "
                f"{delta.controller_epoch}, this broker has image {self._sequence} of "
                f"{self.controller_epoch}",
            )


def _updated(
    base: Mapping[str, Mapping[str, str]], changed: Mapping[str, Mapping[str, str] | None]
) -> dict[str, Mapping[str, str]]:
    """Return configs by entity after a delta; None stands for an entity without configs."""
    return {key: value for key, value in {**base, **changed}.items() if value is not None}
