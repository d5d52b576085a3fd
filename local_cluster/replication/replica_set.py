"""All replicas of this broker: created, led, followed and deleted as the metadata assigns them.

The metadata assigns a replica, and its directory is created. A directory is deleted only on a
positive record that names its topic id, never because metadata is missing: the metadata may be
what was lost. The log of a deleted topic is set aside (stray_replicas.py), and comes back when
its topic does. So is the log of a deleted topic whose name is used again.

A replica whose log ended is offline: its directory failed, or a change of its files was refused.
It neither leads nor follows, clients get KAFKA_STORAGE_ERROR, and the controller gets a report.
A damaged log is reported too until it has been fetched again. If a directory could not be read at
the start, the replicas of the first image that no directory has are offline too: they may lie
there, and an empty log in their place could be elected.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, Protocol

from local_cluster.clock import Clock
from local_cluster.controller.model.cluster_image import (
    NO_LEADER,
    PartitionState,
    ReplicaReport,
    TopicState,
)
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.counters.traffic import TopicsTraffic
from local_cluster.log.config.log_config import LogConfig, stored_config
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.replication.log_flushes import Flusher
from local_cluster.replication.offline_replicas import OfflineReplicas
from local_cluster.replication.partition import Partition
from local_cluster.replication.peers import MetadataPeers
from local_cluster.replication.throttle import ReplicationThrottle
from local_cluster.wire.errors import ErrorCode, KafkaError

LeadershipListener = Callable[[str, int, bool], None]
"""Takes (topic, partition, is leader) when this broker starts or stops leading."""

LAG_MS_MAX: Final = 30_000
"""Kafka's default of replica.lag.time.max.ms."""

log = logging.getLogger(__name__)


class Fetching(Protocol):
    """Fetches the records of the replicas that follow."""

    def follow(self, partition: Partition) -> None:
        """Start to fetch from `partition.leader_id` in `partition.leader_epoch`."""

    def unfollow(self, partition: Partition) -> None:
        """Stop fetching, if the partition is followed."""


class ReplicaSet:
    """The replicas of one broker by topic and partition."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_config: Mapping[str, str],
        directories: LogStore,
        cache: MetadataCache,
        flusher_of: Callable[[LogDirectory], Flusher | None],
        clock: Clock,
        throttle: ReplicationThrottle,
        fetching: Fetching | None = None,
        isr_may_expand: Callable[[], None] = lambda: None,
    ) -> None:
        """`flusher_of` returns the flusher of a directory, None with `flush: page_cache`."""
        self._broker_id = broker_id
        self.throttle = throttle
        self.traffic = TopicsTraffic()
        self._fetching = fetching
        self.lag_ms_max = int(broker_config.get("replica.lag.time.max.ms", LAG_MS_MAX))
        """replica.lag.time.max.ms."""
        self._peers = MetadataPeers(broker_id, self.lag_ms_max, cache, clock, isr_may_expand)
        self._broker_config = broker_config
        self._directories = directories
        self._cache = cache
        self._flusher_of = flusher_of
        self._clock = clock
        self._partitions: dict[str, dict[int, Partition]] = {}
        self._leadership_listeners: list[LeadershipListener] = []
        self._offline = OfflineReplicas()
        self._to_delete: dict[uuid.UUID, str] = {}
        """Names of deleted topics whose deletion a disk refused, by id; retried on `resume`."""
        self._unread: frozenset[tuple[uuid.UUID, int]] | None = None
        """Replicas that may lie in an unreadable directory; None before the first image."""

    def add_leadership_listener(self, listener: LeadershipListener) -> None:
        """Call `listener` whenever this broker starts or stops leading a partition."""
        self._leadership_listeners.append(listener)

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self._partitions.values():
            yield from partitions.values()

    def get_leader(self, topic: str, partition: int) -> Partition:
        """Return the replica that leads here.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, or
        KAFKA_STORAGE_ERROR if the replica is offline.
        """
        try:
            found = self._partitions[topic][partition]
        except KeyError:
            if self._cache.partition(topic, partition) is None:
                raise KafkaError(ErrorCode.unknown_topic_or_partition) from None
            reason = self._offline.reason((topic, partition))
            if reason is not None:
                raise KafkaError(ErrorCode.kafka_storage_error, reason) from None
            raise KafkaError(ErrorCode.not_leader_or_follower) from None
        if not found.is_leader:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        return found

    def get_readable(self, topic: str, partition: int) -> Partition:
        """Return the replica that leads or follows here (KIP-392).

        Raises KafkaError as `get_leader` does, if it does neither, or if its log is damaged: the
        end of such a log says nothing about the partition.
        """
        found = self._partitions.get(topic, {}).get(partition)
        if found is None or found.leader_id == NO_LEADER or found.log.corruption is not None:
            return self.get_leader(topic, partition)
        return found

    def get(self, topic: str, partition: int) -> Partition | None:
        """Return the replica, leading or following; None if there is none here."""
        return self._partitions.get(topic, {}).get(partition)

    def is_offline(self, topic: str, partition: int) -> bool:
        """Whether this broker has a replica that its disk does not let it serve."""
        return self._offline.reason((topic, partition)) is not None

    # -- metadata ---------------------------------------------------------------------------

    def apply(self, changes: Changes) -> None:
        """Bring the replicas to the state of the metadata cache.

        Raises ExceptionGroup of unforeseen errors, after everything else is done: a topic that
        fails must not keep others without a leader.
        """
        self.throttle.apply(changes, self._cache)
        if self._unread is None and self._cache.brokers:
            self._unread = self._find_unread()
        steps = (
            *(partial(self._delete_topic, *deleted) for deleted in changes.deleted.items()),
            *(partial(self._stop_topic, topic) for topic in changes.removed),
            *(partial(self._apply_topic, self._cache.topics[topic]) for topic in changes.topics),
        )
        errors: list[Exception] = []
        for step in steps:
            try:
                step()
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)
        if changes.brokers and any(partition.in_sync is not None for partition in self):
            # An idle follower may have fetched before its registration arrived here. Or a broker
            # died, and its followers hold no high watermark any more.
            self._peers.isr_may_expand()
        if errors:
            raise ExceptionGroup("topics were not taken up", errors)

    def resume(self) -> None:
        """Retry what a full disk refused: open, create, delete and flush logs."""
        self.take_failed_offline()
        self._directories.reopen_offline()
        for topic_id, name in tuple(self._to_delete.items()):
            self._delete_topic(name, topic_id)
        for name in sorted(self._offline.topics & self._cache.topics.keys()):
            self._apply_topic(self._cache.topics[name])
        for partition in self:
            partition.flushes.request()

    def report(self) -> ReplicaReport:
        """Return the offline, damaged and undeleted replicas, all of them."""
        return self._offline.report()

    def take_failed_offline(self) -> None:
        """Stop serving the replicas whose log has failed."""
        for partition in tuple(self):
            if partition.log.failure is not None:
                self._take_offline(partition, partition.log.failure)

    def set_aside(self, replica_log: PartitionLog, reason: str) -> None:
        """Stop serving a log, and rename its directory to a stray."""
        topic, index = replica_log.topic, replica_log.partition
        partition = self._partitions.get(topic, {}).pop(index, None)
        if partition is not None:
            self._resign(partition, partition.leader_epoch)
        about = f"{replica_log} of topic id {replica_log.topic_id}"
        try:
            path = self._directories.set_aside(topic, index)
        except KafkaError as error:
            log.error("%s cannot be set aside: %s", about, error)
            return
        log.warning("%s is set aside as %s: %s", about, path, reason)

    # -- one topic --------------------------------------------------------------------------

    def _apply_topic(self, topic: TopicState) -> None:
        config, ignored = stored_config(topic.configs, self._broker_config)
        if ignored:
            log.error("%s uses the defaults of %s", topic.name, ", ".join(ignored))
        self._set_former_aside(topic)
        for state in topic.partitions.values():
            if self._broker_id in state.replicas:
                self._apply_replica(topic, state, config)
            else:
                self._delete_moved(topic, state.partition)

    def _apply_replica(self, topic: TopicState, state: PartitionState, config: LogConfig) -> None:
        key = (topic.name, state.partition)
        try:
            partition = self._get_or_create(topic, state, config)
        except (KafkaError, OSError) as error:
            self._offline.set_offline(key, str(error))
            return
        self._offline.set_online(key)
        if partition.log.config != config:
            partition.log.state.update_config(config)
        if partition.log.corruption is not None:
            self._offline.set_damaged(key, partition.log)
            # As leader it would spread the damage, or serve less than was acknowledged.
            log.error("%s cannot lead: %s", partition.log, partition.log.corruption)
            # It follows all the same, and its fetcher truncates it to what is whole.
            self._follow(partition, state)
        elif state.leader == self._broker_id:
            self._lead(partition, state)
        else:
            self._follow(partition, state)

    def _set_former_aside(self, topic: TopicState) -> None:
        """Set aside the logs of another topic with the same name.

        Its deletion did not reach this broker: the replica had been moved away while it was down,
        or the znodes were removed by hand.
        """
        for index in self._directories.partitions_of(topic.name):
            found = self._directories.get(topic.name, index)
            if found is not None and found.topic_id not in (None, topic.topic_id):
                self.set_aside(found, f"the topic's id is {topic.topic_id}")

    def _delete_moved(self, topic: TopicState, index: int) -> None:
        """Delete a replica that was moved to other brokers.

        The controller's state of this very topic id names the replicas, and this is none of them.
        That is a positive record. A missing partition would not be one.
        """
        self._offline.set_online((topic.name, index))
        found = self._directories.get(topic.name, index)
        if found is None or found.topic_id != topic.topic_id:
            return
        partition = self._partitions.get(topic.name, {}).pop(index, None)
        if partition is not None:
            self._resign(partition, partition.leader_epoch)
        log.info("%s is deleted: it was moved to other brokers", found)
        try:
            self._directories.delete_replica(topic.name, index)
        except KafkaError as error:
            log.error("%s stays until the next start: %s", found, error)

    def _stop_topic(self, topic: str) -> None:
        for partition in self._partitions.get(topic, {}).values():
            self._resign(partition, partition.leader_epoch)

    def _delete_topic(self, topic: str, topic_id: uuid.UUID) -> None:
        partitions = self._partitions.get(topic, {})
        for index in [i for i, p in partitions.items() if p.topic_id == topic_id]:
            partition = partitions.pop(index)
            self._resign(partition, partition.leader_epoch)
            partition.fail_delayed(ErrorCode.unknown_topic_or_partition)
        if not partitions:
            self._partitions.pop(topic, None)
        # This includes directories that no partition uses: the broker was away.
        try:
            is_complete = self._directories.delete_topic(topic, topic_id)
        except KafkaError as error:
            # The rest of the image must be applied all the same: it is not sent again.
            log.error("%s of topic id %s is not deleted yet: %s", topic, topic_id, error)
            is_complete = False
            self._to_delete[topic_id] = topic
        else:
            self._to_delete.pop(topic_id, None)
        self._offline.set_deleted(topic, topic_id, is_complete=is_complete)

    # -- one replica ------------------------------------------------------------------------

    def _get_or_create(
        self, topic: TopicState, state: PartitionState, config: LogConfig
    ) -> Partition:
        """Return the replica. Raises KafkaError or OSError if it has to be offline."""
        partitions = self._partitions.setdefault(topic.name, {})
        found = partitions.get(state.partition)
        if found is None:
            found = partitions[state.partition] = self._create(topic, state, config)
        elif found.topic_id != topic.topic_id:
            # It could not be set aside.
            raise KafkaError(
                ErrorCode.inconsistent_topic_id,
                f"the directory belongs to topic id {found.topic_id}, not {topic.topic_id}",
            )
        return found

    def _create(self, topic: TopicState, state: PartitionState, config: LogConfig) -> Partition:
        key = (topic.name, state.partition)
        if (topic.topic_id, state.partition) in (self._unread or ()):
            raise KafkaError(
                ErrorCode.kafka_storage_error, "it may lie in a directory that cannot be read"
            )
        found = self._directories.get_or_create(topic.name, topic.topic_id, state.partition, config)
        if found.failure is not None:
            raise KafkaError(ErrorCode.kafka_storage_error, found.failure)
        home = self._directories.of(*key)
        assert home is not None, "a log lies in a directory"
        return Partition(
            *key,
            topic.topic_id,
            found,
            flusher=self._flusher_of(home),
            now_ms=self._clock.now_ms,
            high_watermark=self._directories.high_watermark(*key),
            peers=self._peers,
            traffic=self.traffic.of(topic.name),
        )

    def _find_unread(self) -> frozenset[tuple[uuid.UUID, int]]:
        if not self._directories.has_unread:
            return frozenset()
        return frozenset(
            (topic.topic_id, state.partition)
            for topic in self._cache.topics.values()
            for state in topic.partitions.values()
            if self._broker_id in state.replicas
            and self._directories.of(topic.name, state.partition) is None
        )

    def _take_offline(self, partition: Partition, reason: str) -> None:
        del self._partitions[partition.topic][partition.partition]
        self._offline.set_offline((partition.topic, partition.partition), reason)
        partition.fail_delayed(ErrorCode.kafka_storage_error)
        self._resign(partition, partition.leader_epoch)

    def _lead(self, partition: Partition, state: PartitionState) -> None:
        if state.leader_epoch < partition.leader_epoch:
            return
        was_leader = partition.is_leader
        self._unfollow(partition)
        partition.become_leader(state.leader_epoch, state)
        if not was_leader:
            self._notify_leadership(partition, True)

    def _follow(self, partition: Partition, state: PartitionState) -> None:
        if state.leader_epoch < partition.leader_epoch:
            return
        is_same_epoch = (
            not partition.is_leader
            and partition.leader_epoch == state.leader_epoch
            and partition.leader_id == state.leader
        )
        if not is_same_epoch:
            self._resign(partition, state.leader_epoch, state.leader)
        if self._fetching is None:
            return
        # A damaged replica deletes its log to fetch it again, but only outside the ISR.
        is_damaged = partition.log.corruption is not None
        if state.leader in (NO_LEADER, self._broker_id) or (
            is_damaged and self._broker_id in state.isr
        ):
            self._unfollow(partition)
        elif not is_same_epoch or is_damaged:
            self._fetching.follow(partition)

    def _unfollow(self, partition: Partition) -> None:
        if self._fetching is not None:
            self._fetching.unfollow(partition)

    def _resign(self, partition: Partition, leader_epoch: int, leader_id: int = NO_LEADER) -> None:
        if leader_epoch < partition.leader_epoch:
            return
        was_leader = partition.is_leader
        partition.resign(leader_epoch, leader_id)
        if leader_id == NO_LEADER:
            self._unfollow(partition)
        if was_leader:
            self._notify_leadership(partition, False)

    def _notify_leadership(self, partition: Partition, is_leader: bool) -> None:
        for listener in self._leadership_listeners:
            listener(partition.topic, partition.partition, is_leader)
