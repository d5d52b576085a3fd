"""An outside admin client of one cluster: topics, partitions, offsets, deletions, positions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import confluent_kafka
import confluent_kafka.admin
from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.referee.clients import LIBRDKAFKA

ANSWER_SECONDS_MAX: Final = 10.0
PATIENCE_SECONDS: Final = 90.0
"""How long a request is repeated while brokers are away."""
admin: Final[Any] = confluent_kafka.admin
"""Its types do not say that it has these classes."""
EXISTS = "TOPIC_ALREADY_EXISTS"
UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PART"

T = TypeVar("T")


class AdminGaveUp(Exception):
    """A request did not succeed within its patience."""


class Admin:
    """Requests to one cluster, each repeated until it is answered. All raise AdminGaveUp."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._client = AdminClient({**LIBRDKAFKA, "bootstrap.servers": bootstrap})
        self.deleted_to: dict[tuple[str, int], int] = {}
        """(topic, partition) -> the log start that an acknowledged DeleteRecords asked for."""

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        """Create a topic with the cluster's replication factor; it may exist already."""
        topic = admin.NewTopic(name, partitions, -1, config=dict(config))
        self._done(lambda: self._client.create_topics([topic]), allowed=EXISTS)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until the cluster does not list it."""
        self._done(lambda: self._client.delete_topics([name]), allowed=UNKNOWN_TOPIC)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while name in self.partition_counts():
            if time.monotonic() > deadline:
                raise AdminGaveUp(f"{name} is still listed")
            time.sleep(0.2)

    def add_partitions(self, name: str, total: int) -> None:
        """Give a topic so many partitions; it may have them already."""
        if self.partition_counts()[name] < total:
            self._done(
                lambda: self._client.create_partitions([admin.NewPartitions(name, total)]),
                allowed="INVALID_PARTITIONS",
            )

    def set_config(self, topic: str, name: str, value: str) -> None:
        """Set a config of a topic."""
        entry = admin.ConfigEntry(name, value, incremental_operation=admin.AlterConfigOpType.SET)
        resource = admin.ConfigResource("topic", topic, incremental_configs=[entry])
        self._done(lambda: self._client.incremental_alter_configs([resource]))

    def delete_records(self, before: Mapping[tuple[str, int], int]) -> None:
        """Delete the records before an offset of each (topic, partition)."""
        places = [TopicPartition(topic, number, at) for (topic, number), at in before.items()]
        self._done(lambda: self._client.delete_records(places))
        for place, at in before.items():
            self.deleted_to[place] = max(at, self.deleted_to.get(place, 0))

    def partition_counts(self) -> dict[str, int]:
        """The cluster's topics with their numbers of partitions."""
        found = self._patiently(lambda: self._client.list_topics(timeout=ANSWER_SECONDS_MAX))
        return {name: len(topic.partitions) for name, topic in found.topics.items()}

    def ends(
        self, places: Iterable[tuple[str, int]], spec: Any = None, *, committed: bool = False
    ) -> dict[tuple[str, int], int]:
        """Where partitions end (or as `spec` says), by default with open transactions."""
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = {TopicPartition(*place): spec or admin.OffsetSpec.latest() for place in places}
        if not asked:
            return {}

        def ask() -> dict[tuple[str, int], int]:
            futures = self._client.list_offsets(
                asked, isolation_level=isolation, request_timeout=ANSWER_SECONDS_MAX
            )
            return {
                (place.topic, place.partition): future.result().offset
                for place, future in futures.items()
            }

        return self._patiently(ask)

    def starts(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Where partitions begin."""
        return self.ends(places, admin.OffsetSpec.earliest())

    def positions(self, group: str) -> dict[tuple[str, int], int]:
        """The positions that a group has committed, by topic and partition."""

        def ask() -> Any:
            asked = [ConsumerGroupTopicPartitions(group)]
            futures = self._client.list_consumer_group_offsets(
                asked, request_timeout=ANSWER_SECONDS_MAX
            )
            return next(iter(futures.values())).result()

        return {
            (each.topic, each.partition): each.offset
            for each in self._patiently(ask).topic_partitions
            if each.offset >= 0
        }

    def _done(self, start: Callable[[], Mapping[Any, Any]], allowed: str = "") -> None:
        def ask() -> None:
            for future in start().values():
                try:
                    future.result(ANSWER_SECONDS_MAX)
                except confluent_kafka.KafkaException as failed:
                    if failed.args[0].name() != allowed:
                        raise

        self._patiently(ask)

    def _patiently(self, ask: Callable[[], T]) -> T:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return ask()
            except (confluent_kafka.KafkaException, TimeoutError) as failed:
                if time.monotonic() > deadline:
                    raise AdminGaveUp(f"{self.bootstrap}: {failed}") from failed
                time.sleep(0.5)
