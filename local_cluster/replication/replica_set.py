"""All replicas that this broker hosts: created, led, followed and deleted as the metadata says.

A replica's directory is made when the metadata assigns it here, and removed only on a positive
delete record that names its topic id (never because metadata is missing: the metadata may be
what was lost). What no topic accounts for, or a former one of the same name, is set aside, and
comes back when one does (strays.py).

A replica whose log ended (its directory failed, or a change of its files was refused) is offline:
neither led nor followed, answered with KAFKA_STORAGE_ERROR, and reported to the controller, as is
one whose log is damaged until it has been fetched anew. Where a directory could not be read at the
start, so is what the first image gives this broker and no directory has: it may lie there, and an
empty log in its place could be elected.
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
from local_cluster.log.config.log_config import LogConfig, stored_config
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.replication.live_peers import LivePeers
from local_cluster.replication.partition import Partition
from local_cluster.replication.partition_flushes import Flusher
from local_cluster.replication.strays import find_strays
from local_cluster.replication.throttle import ReplicationThrottle
from local_cluster.replication.unserved import Unserved
from local_cluster.wire.errors import ErrorCode, KafkaError

LeadershipListener = Callable[[str, int, bool], None]
"""Called with (topic, partition, leads) when this broker begins or ends to lead."""

LAG_MS_MAX: Final = 30_000
"""Kafka's default of replica.lag.time.max.ms."""

_log = logging.getLogger(__name__)


class Fetching(Protocol):
    """Who fetches for the replicas that follow."""

    def follow(self, partition: Partition) -> None:
        """Fetch from `partition.leader_id` in `partition.leader_epoch` from now on."""
        ...

    def leave(self, partition: Partition) -> None:
        """Fetch no more; nothing to do where it is not followed."""
        ...


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
        isr_may_change: Callable[[Partition], None] = lambda partition: None,
    ) -> None:
        """`flusher_of` gives who flushes the logs of a directory, None where nobody does."""
        self._broker_id = broker_id
        self.throttle = throttle
        self._fetching = fetching
        self.lag_ms_max = int(broker_config.get("replica.lag.time.max.ms", LAG_MS_MAX))
        """replica.lag.time.max.ms."""
        self._peers = LivePeers(broker_id, self.lag_ms_max, cache, clock, isr_may_change)
        self._broker_config = broker_config
        self._directories = directories
        self._cache = cache
        self._flusher_of = flusher_of
        self._clock = clock
        self._partitions: dict[str, dict[int, Partition]] = {}
        self._listeners: list[LeadershipListener] = []
        self._unserved = Unserved()
        self._to_delete: dict[uuid.UUID, str] = {}
        """Names of deleted topics that a disk did not let go, by id; tried again on `resume`."""
        self._unread: frozenset[tuple[uuid.UUID, int]] | None = None
        """Replicas that may lie where nothing can be read; None before the first image."""

    def on_leadership(self, listener: LeadershipListener) -> None:
        """Call `listener` for every begin and end of leadership from now on."""
        self._listeners.append(listener)

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self._partitions.values():
            yield from partitions.values()

    def get_leader(self, topic: str, partition: int) -> Partition:
        """The replica that leads here.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, or
        KAFKA_STORAGE_ERROR where the replica's log is offline.
        """
        try:
            found = self._partitions[topic][partition]
        except KeyError:
            if self._cache.partition(topic, partition) is None:
                raise KafkaError(ErrorCode.unknown_topic_or_partition) from None
            reason = self._unserved.reason((topic, partition))
            if reason is not None:
                raise KafkaError(ErrorCode.kafka_storage_error, reason) from None
            raise KafkaError(ErrorCode.not_leader_or_follower) from None
        if not found.is_leader:
            raise KafkaError(ErrorCode.not_leader_or_follower)
        return found

    def get_readable(self, topic: str, partition: int) -> Partition:
        """The replica that leads or follows here (KIP-392).

        Raises KafkaError as `get_leader` does, where there is neither.
        """
        found = self._partitions.get(topic, {}).get(partition)
        if found is None or found.leader_id == NO_LEADER:
            return self.get_leader(topic, partition)
        return found

    def get(self, topic: str, partition: int) -> Partition | None:
        """The replica, leading or following; None where there is none here."""
        return self._partitions.get(topic, {}).get(partition)

    def is_offline(self, topic: str, partition: int) -> bool:
        """Whether a replica here cannot be served, because of its disk."""
        return self._unserved.reason((topic, partition)) is not None

    # -- following the metadata -------------------------------------------------------------

    def apply(self, changes: Changes) -> None:
        """Bring the replicas to what the metadata cache now says.

        Raises ExceptionGroup of what was unforeseen, when all else is done: a topic that cannot be
        taken up must not keep others from being led.
        """
        self.throttle.apply(changes, self._cache)
        if self._unread is None and self._cache.brokers:
            self._unread = self._find_unread()
        todo = (
            *(partial(self._delete_topic, *deleted) for deleted in changes.deleted.items()),
            *(partial(self._stop_topic, topic) for topic in changes.removed),
            *(partial(self._follow_topic, self._cache.topics[topic]) for topic in changes.topics),
        )
        errors: list[Exception] = []
        for take_up in todo:
            try:
                take_up()
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)
        if changes.brokers:
            # A follower at rest was perhaps heard of before its registration was, or its broker
            # died and holds no commit back any more.
            for partition in self:
                if partition.in_sync is not None:
                    self._peers.isr_may_change(partition)
                    break
        if errors:
            raise ExceptionGroup("topics were not taken up", errors)

    def set_strays_aside(self) -> None:
        """Take out the logs of topics that are no more; the metadata has all topics there are."""
        for log in find_strays(self._directories, self._cache.topics):
            self._set_aside(log, "there is no such topic any more")

    def resume(self) -> None:
        """The disk takes writes again: open and make what it refused, flush what is not yet."""
        self.take_failed_offline()
        self._directories.reopen_offline()
        for topic_id, name in tuple(self._to_delete.items()):
            self._delete_topic(name, topic_id)
        for name in sorted(self._unserved.offline_topics & self._cache.topics.keys()):
            self._follow_topic(self._cache.topics[name])
        for partition in self:
            partition.request_flush()

    def report(self) -> ReplicaReport:
        """What of the replicas here cannot be served, all of it."""
        return self._unserved.report()

    def take_failed_offline(self) -> None:
        """Serve no longer what cannot be written any more."""
        for partition in tuple(self):
            if partition.log.failure is not None:
                self._take_offline(partition, partition.log.failure)

    def resign_all(self) -> None:
        """Stop leading everything: this broker is no longer part of the cluster."""
        for partition in self:
            self._resign(partition, partition.leader_epoch)

    def _follow_topic(self, topic: TopicState) -> None:
        config, left_out = stored_config(topic.configs, self._broker_config)
        if left_out:
            _log.error("%s goes by the defaults of %s", topic.name, ", ".join(left_out))
        self._set_former_aside(topic)
        for state in topic.partitions.values():
            if self._broker_id not in state.replicas:
                self._drop_moved(topic, state.partition)
                continue
            key = (topic.name, state.partition)
            try:
                partition = self._replica(topic, state, config)
            except (KafkaError, OSError) as error:
                self._unserved.set_offline(key, str(error))
                continue
            self._unserved.set_well(key)
            if partition.log.config != config:
                partition.log.state.update_config(config)
            if partition.log.corruption is not None:
                self._unserved.set_damaged(key, partition)
                # Leading with it would spread the damage, or serve less than was acknowledged.
                _log.error("%s does not lead: %s", partition.log, partition.log.corruption)
                # It fetches all the same, and is cut back to what is whole by that.
                self._follow(partition, state)
            elif state.leader == self._broker_id:
                self._lead(partition, state)
            else:
                self._follow(partition, state)

    def _set_former_aside(self, topic: TopicState) -> None:
        """Take out what is here of another topic of the same name.

        Its deletion passed this broker by: the replica had been moved away while it was down, or
        the znodes were removed by hand.
        """
        for index in self._directories.partitions_of(topic.name):
            log = self._directories.get(topic.name, index)
            if log is not None and log.topic_id not in (None, topic.topic_id):
                self._set_aside(log, f"the topic is now {topic.topic_id}")

    def _set_aside(self, log: PartitionLog, reason: str) -> None:
        partition = self._partitions.get(log.topic, {}).pop(log.partition, None)
        if partition is not None:
            self._resign(partition, partition.leader_epoch)
        try:
            path = self._directories.set_aside(log.topic, log.partition)
        except KafkaError as error:
            _log.error("%s of topic id %s stays: %s", log, log.topic_id, error)
            return
        _log.warning("%s of topic id %s is set aside, %s: %s", log, log.topic_id, reason, path)

    def _drop_moved(self, topic: TopicState, index: int) -> None:
        """Delete a replica that was moved to other brokers.

        What the controller says of this very topic id names the replicas, and this is none of
        them: a positive record, where a partition that is merely missing would not be.
        """
        self._unserved.set_well((topic.name, index))
        log = self._directories.get(topic.name, index)
        if log is None or log.topic_id != topic.topic_id:
            return
        partition = self._partitions.get(topic.name, {}).pop(index, None)
        if partition is not None:
            self._resign(partition, partition.leader_epoch)
        _log.info("%s was moved to other brokers and is deleted here", log)
        try:
            self._directories.delete_replica(topic.name, index)
        except KafkaError as error:
            _log.error("%s stays until the next start: %s", log, error)

    def _replica(self, topic: TopicState, state: PartitionState, config: LogConfig) -> Partition:
        partitions = self._partitions.setdefault(topic.name, {})
        found = partitions.get(state.partition)
        if found is not None and found.topic_id != topic.topic_id:
            # It could not be set aside.
            raise KafkaError(
                ErrorCode.inconsistent_topic_id,
                f"the directory belongs to topic id {found.topic_id}, not {topic.topic_id}",
            )
        if found is None:
            if (topic.topic_id, state.partition) in (self._unread or ()):
                raise KafkaError(
                    ErrorCode.kafka_storage_error, "it may lie in a directory that cannot be read"
                )
            log = self._directories.get_or_create(
                topic.name, topic.topic_id, state.partition, config
            )
            if log.failure is not None:
                raise KafkaError(ErrorCode.kafka_storage_error, log.failure)
            home = self._directories.of(topic.name, state.partition)
            assert home is not None, "a log lies in a directory"
            found = Partition(
                topic.name,
                state.partition,
                topic.topic_id,
                log,
                flusher=self._flusher_of(home),
                now_ms=self._clock.now_ms,
                high_watermark=self._directories.high_watermark(topic.name, state.partition),
                peers=self._peers,
            )
            partitions[state.partition] = found
        return found

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
        self._unserved.set_offline((partition.topic, partition.partition), reason)
        partition.fail_parked(ErrorCode.kafka_storage_error)
        self._resign(partition, partition.leader_epoch)

    def _lead(self, partition: Partition, state: PartitionState) -> None:
        if state.leader_epoch < partition.leader_epoch:
            return
        began = not partition.is_leader
        if self._fetching is not None:
            self._fetching.leave(partition)
        partition.become_leader(state.leader_epoch, state)
        if began:
            self._tell(partition, True)

    def _follow(self, partition: Partition, state: PartitionState) -> None:
        if state.leader_epoch < partition.leader_epoch:
            return
        same = (
            not partition.is_leader
            and partition.leader_epoch == state.leader_epoch
            and partition.leader_id == state.leader
        )
        if not same:
            self._resign(partition, state.leader_epoch, state.leader)
        if self._fetching is None:
            return
        # A damaged replica throws its log away to fetch it again: only once nobody counts on it.
        damaged = partition.log.corruption is not None
        if state.leader in (NO_LEADER, self._broker_id) or (
            damaged and self._broker_id in state.isr
        ):
            self._fetching.leave(partition)
        elif not same or damaged:
            self._fetching.follow(partition)

    def _resign(self, partition: Partition, leader_epoch: int, leader_id: int = NO_LEADER) -> None:
        if leader_epoch < partition.leader_epoch:
            return
        led = partition.is_leader
        partition.resign(leader_epoch, leader_id)
        if leader_id == NO_LEADER and self._fetching is not None:
            self._fetching.leave(partition)
        if led:
            self._tell(partition, False)

    def _tell(self, partition: Partition, leads: bool) -> None:
        for listener in self._listeners:
            listener(partition.topic, partition.partition, leads)

    def _stop_topic(self, topic: str) -> None:
        for partition in self._partitions.get(topic, {}).values():
            self._resign(partition, partition.leader_epoch)

    def _delete_topic(self, topic: str, topic_id: uuid.UUID) -> None:
        partitions = self._partitions.get(topic, {})
        for index in [i for i, p in partitions.items() if p.topic_id == topic_id]:
            partition = partitions.pop(index)
            self._resign(partition, partition.leader_epoch)
            partition.fail_parked(ErrorCode.unknown_topic_or_partition)
        if not partitions:
            self._partitions.pop(topic, None)
        # Directories that were never opened in this run (the broker was away) go as well.
        try:
            is_whole = self._directories.delete_topic(topic, topic_id)
        except KafkaError as error:
            # What else the image says must be done all the same: it is not told again.
            _log.error("%s of topic id %s is not deleted yet: %s", topic, topic_id, error)
            is_whole = False
            self._to_delete[topic_id] = topic
        else:
            self._to_delete.pop(topic_id, None)
        self._unserved.topic_deleted(topic, topic_id, is_whole=is_whole)
