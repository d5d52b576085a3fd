"""The mirror's client of either side: `KafkaClient` with topic ids of one broker and missing
rights.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from local_cluster.client.auth.security import ClientSecurity
from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import LastResponse
from local_cluster.client.model import (
    ClusterMetadata,
    FetchedPartition,
    ProducedPartition,
    SessionAnswer,
    TopicPartition,
)
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import KafkaError
from local_cluster.wire.messages import Fields
from mirror_maker.clusters.missing_rights import MissingRights, Right, answered_rights, topic_right
from mirror_maker.formats.records import NO_TOPIC_ID
from mirror_maker.model import DescribedProducer

DELETE_TIMEOUT_MS: Final = 10_000
"""How long a broker waits for the replicas of a partition to delete records."""

NAMING_SINCE: Final = 3
"""The version of InitProducerId from which a producer names the id that it has (KIP-360)."""

log = logging.getLogger(__name__)


class MirrorClient(KafkaClient):
    """A `ports.DataSource` and `ports.DataSink`."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str,
        request_timeout_ms: int = 30_000,
        security: ClientSecurity,
        rights: MissingRights | None = None,
    ) -> None:
        """`rights` are the principal's in this cluster; several clients may share them."""
        super().__init__(
            bootstrap,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            security=security,
        )
        self._rights = MissingRights(bootstrap, security) if rights is None else rights

    async def call(self, api: ApiKey, fields: Fields, **options: Any) -> Any:
        """See `ClusterCalls.call`."""
        last: LastResponse | None = options.get("last")
        before = None if last is None else last.response
        response = await super().call(api, fields, **options)
        # Skip unchanged responses unless a right is missing.
        if self._rights or response is not before:
            self._note_rights(answered_rights(api, fields, response))
        return response

    async def ask_metadata(
        self,
        topics: Sequence[str] | None,
        *,
        last: ClusterMetadata | None = None,
        **options: Any,
    ) -> ClusterMetadata:
        """See `ClusterCalls.ask_metadata`."""
        found = await super().ask_metadata(topics, last=last, **options)
        if self._rights or last is None or found.topics is not last.topics:
            self._note_rights(
                (topic_right("DESCRIBE", name), topic.error) for name, topic in found.topics.items()
            )
        return found

    async def fetch(self, *args: Any, **options: Any) -> dict[TopicPartition, FetchedPartition]:
        """See `KafkaClient.fetch`."""
        answers = await super().fetch(*args, **options)
        self._note_partitions("READ", answers)
        return answers

    async def fetch_in_session(self, *args: Any, **options: Any) -> SessionAnswer:
        """See `KafkaClient.fetch_in_session`."""
        answer = await super().fetch_in_session(*args, **options)
        self._note_partitions("READ", answer.partitions)
        return answer

    async def produce(self, *args: Any, **options: Any) -> dict[TopicPartition, ProducedPartition]:
        """See `KafkaClient.produce`."""
        answers = await super().produce(*args, **options)
        self._note_partitions("WRITE", answers)
        return answers

    def _note_partitions(
        self,
        operation: str,
        answers: Mapping[TopicPartition, FetchedPartition]
        | Mapping[TopicPartition, ProducedPartition],
    ) -> None:
        # This runs for every batch, so it costs next to nothing unless something was refused.
        if self._rights or any(answer.error for answer in answers.values()):
            self._note_rights(
                (topic_right(operation, at.topic), answer.error) for at, answer in answers.items()
            )

    def _note_rights(self, answers: Iterable[tuple[Right, int]]) -> None:
        for right in self._rights.note(answers, time.monotonic_ns() // 1_000_000):
            log.warning("%s", self._rights.sentence(right))

    async def topic_ids(self, node_id: int, names: Sequence[str]) -> dict[str, uuid.UUID]:
        """Return the ids of the topics that exist, as this broker sees them. Raises KafkaError.

        A broker before Metadata v10 has no topic ids; each is then NO_TOPIC_ID.
        """
        found = await self.ask_metadata(names, node_id=node_id)
        return {
            name: topic.topic_id or NO_TOPIC_ID
            for name, topic in found.topics.items()
            if not topic.error
        }

    async def announce_producer(self, producer_id: int, producer_epoch: int) -> None:
        """Name a producer id that is kept, so that brokers of ours refuse it to others.

        Kafka ignores the name, and returns a new id that nobody uses. Raises KafkaError.
        """
        connection = await self.connection(None)
        if connection.has_version(ApiKey.INIT_PRODUCER_ID, NAMING_SINCE):
            await self.call(
                ApiKey.INIT_PRODUCER_ID,
                {
                    "transactional_id": None,
                    "transaction_timeout": 0,
                    "producer_id": producer_id,
                    "producer_epoch": producer_epoch,
                },
            )

    async def delete_records(self, node_id: int, at: TopicPartition, before_offset: int) -> None:
        """Delete the records below an offset in a partition that this broker leads.

        Raises KafkaError, `policy_violation` for a topic with only `cleanup.policy=compact`.
        """
        partition = {"partition_index": at.partition, "offset": before_offset}
        response = await self.call(
            ApiKey.DELETE_RECORDS,
            {
                "topics": [{"name": at.topic, "partitions": [partition]}],
                "timeout": DELETE_TIMEOUT_MS,
            },
            node_id=node_id,
        )
        (found,) = response.topics[0].partitions
        if found.error_code:
            raise KafkaError(found.error_code, f"{at}: records below {before_offset} not deleted")

    async def describe_producer(
        self, node_id: int, at: TopicPartition, producer_id: int
    ) -> DescribedProducer | None:
        """Return what the leader of a partition knows of a producer; None if nothing.

        Raises KafkaError, `unsupported_version` before Kafka 2.8 (KIP-664).
        """
        response = await self.call(
            ApiKey.DESCRIBE_PRODUCERS,
            {"topics": [{"name": at.topic, "partition_indexes": [at.partition]}]},
            node_id=node_id,
        )
        (found,) = response.topics[0].partitions
        if found.error_code:
            raise KafkaError(found.error_code, found.error_message or str(at))
        for producer in found.active_producers:
            if producer.producer_id == producer_id:
                return DescribedProducer(
                    int(producer.producer_epoch),
                    int(producer.last_sequence),
                    int(producer.last_timestamp),
                )
        return None
