"""A Kafka client for raw record bytes and admin calls, on asyncio: every call with its types."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_random_exponential

from local_cluster.client.calls import ClusterCalls, retry_while_moved
from local_cluster.client.fetch_session import FetchSession, SessionRequest, fetch_in_session
from local_cluster.client.fetching import (
    choose_fetch_version,
    decode_fetch,
    fetch_all,
    fetch_request,
    session_request,
)
from local_cluster.client.model import (
    FetchedPartition,
    FetchLimits,
    FetchPosition,
    ListedOffset,
    NewTopic,
    ProducedPartition,
    SessionAnswer,
    TopicConfigs,
    TopicPartition,
)
from local_cluster.client.produce_batches import ProduceBatches, match_results
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import (
    CONSUMER_REPLICA_ID,
    READ_UNCOMMITTED,
    ConfigResourceType,
    ConfigSource,
)
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import TOPIC_IDS_SINCE, FetchRequest
from local_cluster.wire.fetch import encode_request as encode_fetch
from local_cluster.wire.messages import Fields, get
from local_cluster.wire.produce import PartitionRecords, ProduceRequest, decode_response
from local_cluster.wire.produce import encode_request as encode_produce

COMMITS_KNOWN_SECONDS_MAX: Final = 10.0
"""How long ListOffsets is repeated while a new leader does not know what is committed."""
_CLOSING: Final = FetchLimits(wait_ms_max=0, bytes_min=0, bytes_max=0)


class KafkaClient(ClusterCalls):
    """A client of one cluster, from a bootstrap list "host:port,host:port".

    Times are in milliseconds, sizes in bytes. Every method raises KafkaError if its request fails
    as a whole: the broker cannot be reached, does not answer in time, or refuses the request.
    """

    # -- topics -----------------------------------------------------------------------------

    async def create_topics(
        self,
        topics: Sequence[NewTopic],
        *,
        timeout_ms: int = 30_000,
        validate_only: bool = False,
    ) -> dict[str, KafkaError | None]:
        """Create topics, or only let the broker check them. Return the error of each by name."""
        response = await self.call_controller(
            ApiKey.CREATE_TOPICS,
            {
                "topics": [_new_topic(topic) for topic in topics],
                "timeout": timeout_ms,
                "validate_only": validate_only,
            },
        )
        return _errors(response.topics)

    async def delete_topics(
        self, names: Sequence[str], *, timeout_ms: int = 30_000
    ) -> dict[str, KafkaError | None]:
        """Delete topics. Return the error of each by name, None after a success."""
        response = await self.call_controller(
            ApiKey.DELETE_TOPICS, {"topic_names": list(names), "timeout": timeout_ms}
        )
        return _errors(response.responses)

    async def create_partitions(
        self, counts: Mapping[str, int], *, timeout_ms: int = 30_000, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Raise topics to the given numbers of partitions. Return the error of each by name.

        With `validate_only` the broker only checks the request.
        """
        response = await self.call_controller(
            ApiKey.CREATE_PARTITIONS,
            {
                "topics": [
                    {"name": name, "count": count, "assignments": None}
                    for name, count in counts.items()
                ],
                "timeout": timeout_ms,
                "validate_only": validate_only,
            },
        )
        return _errors(response.results)

    async def describe_topic_configs(self, names: Sequence[str]) -> dict[str, TopicConfigs]:
        """Return the configs of topics by name. Raises KafkaError if one topic has an error."""
        configs: dict[str, TopicConfigs] = {}
        for name, answer in (await self.ask_topic_configs(names)).items():
            if isinstance(answer, KafkaError):
                raise answer
            configs[name] = answer
        return configs

    async def ask_topic_configs(self, names: Sequence[str]) -> dict[str, TopicConfigs | KafkaError]:
        """Return the configs of topics by name, or the error of a topic."""
        response = await self.call(
            ApiKey.DESCRIBE_CONFIGS,
            {
                "resources": [
                    {
                        "resource_type": ConfigResourceType.TOPIC,
                        "resource_name": name,
                        "configuration_keys": None,
                    }
                    for name in names
                ]
            },
        )
        return {
            result.resource_name: _error(result)
            or {
                entry.name: (
                    entry.value,
                    int(get(entry, "config_source", -1)) != ConfigSource.DYNAMIC_TOPIC,
                )
                for entry in result.configs
            }
            for result in response.results
        }

    async def init_producer_id(self) -> tuple[int, int]:
        """Return a new (producer id, epoch) for an idempotent producer."""

        async def attempt() -> tuple[int, int]:
            response = await self.call(
                ApiKey.INIT_PRODUCER_ID, {"transactional_id": None, "transaction_timeout": 0}
            )
            if response.error_code:
                raise KafkaError(response.error_code, "InitProducerId")
            return int(response.producer_id), int(response.producer_epoch)

        return await retry_while_moved(attempt)

    # -- offsets ----------------------------------------------------------------------------

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        """Return offsets by timestamp (-1: latest, -2: earliest) from each partition's leader.

        Repeats the request for up to COMMITS_KNOWN_SECONDS_MAX while a new leader does not know
        what is committed (KIP-207).
        """
        retry = AsyncRetrying(
            retry=retry_if_result(_are_commits_unknown),
            stop=stop_after_delay(COMMITS_KNOWN_SECONDS_MAX),
            wait=wait_random_exponential(multiplier=0.02, max=0.5),
            retry_error_callback=lambda state: state.outcome and state.outcome.result(),
        )
        listed: dict[TopicPartition, ListedOffset] = await retry(
            self._list_offsets, timestamps, isolation_level
        )
        return listed

    async def _list_offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: int
    ) -> dict[TopicPartition, ListedOffset]:
        leaders = await self._leaders(timestamps)
        results: dict[TopicPartition, ListedOffset] = {}
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in timestamps:
            leader, error = leaders[partition]
            if error:
                results[partition] = ListedOffset(error, -1, -1, -1)
            else:
                by_node.setdefault(leader, []).append(partition)
        for node_id, partitions in by_node.items():
            requested = {partition: timestamps[partition] for partition in partitions}
            results |= await self.list_offsets_of(
                node_id, requested, isolation_level=isolation_level
            )
        return results

    async def list_offsets_of(
        self,
        node_id: int,
        timestamps: Mapping[TopicPartition, int],
        *,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> dict[TopicPartition, ListedOffset]:
        """As `list_offsets`, in one request to one broker.

        A partition has an error if the broker does not lead it, or does not know its commits.
        """
        topics: dict[str, list[Fields]] = {}
        for partition, timestamp in timestamps.items():
            topics.setdefault(partition.topic, []).append(
                {
                    "partition_index": partition.partition,
                    "timestamp": timestamp,
                    "current_leader_epoch": -1,
                }
            )
        response = await self.call(
            ApiKey.LIST_OFFSETS,
            {
                "replica_id": CONSUMER_REPLICA_ID,
                "isolation_level": isolation_level,
                "timeout": self._request_timeout_ms,
                "topics": [{"name": n, "partitions": p} for n, p in topics.items()],
            },
            node_id=node_id,
        )
        return {
            TopicPartition(topic.name, int(entry.partition_index)): ListedOffset(
                entry.error_code,
                int(entry.offset),
                int(entry.timestamp),
                int(get(entry, "leader_epoch", -1)),
            )
            for topic in response.topics
            for entry in topic.partitions
        }

    # -- fetch ------------------------------------------------------------------------------

    async def fetch(
        self,
        node_id: int,
        positions: Mapping[TopicPartition, FetchPosition],
        *,
        wait_ms_max: int = 500,
        bytes_min: int = 1,
        bytes_max: int = 52_428_800,
        partition_bytes_max: int = 1_048_576,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> dict[TopicPartition, FetchedPartition]:
        """Fetch from one broker, and return a result for every partition.

        The broker waits up to `wait_ms_max` for `bytes_min`. A request that a client quota
        throttles is repeated, see fetching.py.
        """
        request = fetch_request(
            positions,
            FetchLimits(wait_ms_max, bytes_min, bytes_max, partition_bytes_max, isolation_level),
        )
        return await fetch_all(positions.keys(), lambda: self._fetch(node_id, request))

    async def fetch_in_session(
        self,
        node_id: int,
        session: FetchSession,
        *,
        wait_ms_max: int = 500,
        bytes_min: int = 1,
        bytes_max: int = 52_428_800,
        partition_bytes_max: int = 1_048_576,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> SessionAnswer:
        """Fetch what the session wants, and return the partitions that have changed.

        The session belongs to this broker, and one call at a time may use it.
        """
        limits = FetchLimits(
            wait_ms_max, bytes_min, bytes_max, partition_bytes_max, isolation_level
        )

        async def send(request: SessionRequest) -> SessionAnswer:
            by_id = session if request.is_by_id else None
            return await self._fetch(node_id, session_request(request, limits), by_id)

        connection = await self.connection(node_id)
        session.knows_topic_ids = connection.has_version(ApiKey.FETCH, TOPIC_IDS_SINCE)
        return await fetch_in_session(session, send)

    async def close_fetch_session(self, node_id: int, session: FetchSession) -> None:
        """End a session at its broker, so that its slot there is free (KIP-227).

        A fetch in flight may then be refused.
        """
        closing = session.closing_request()
        if closing is not None:
            await self._fetch(node_id, session_request(closing, _CLOSING))

    async def _fetch(
        self, node_id: int, request: FetchRequest, by_id: FetchSession | None = None
    ) -> SessionAnswer:
        """Send a request. `by_id` is the session that knows the topic names, if it uses ids."""
        connection = await self.connection(node_id)
        version = choose_fetch_version(connection, by_id=by_id is not None)
        body = encode_fetch(version, request)
        sent = connection.send(ApiKey.FETCH, version, (body,))
        timeout_ms = request.wait_ms_max + self._request_timeout_ms
        frame, position = await self._await_response(connection, sent, timeout_ms)
        return decode_fetch(version, frame, position, by_id)

    # -- produce ----------------------------------------------------------------------------

    async def produce(
        self,
        node_id: int,
        batches: ProduceBatches,
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
    ) -> dict[TopicPartition, ProducedPartition]:
        """Produce batches to one broker. Return the result of every batch; nothing if `acks` is 0.

        `timeout_ms` bounds the broker's wait for the ISR. On an open connection the request is
        written before the first await. After a KafkaError it is not known whether the batches
        were appended.
        """
        connection = self._directory.find_open(node_id) or await self.connection(node_id)
        version = connection.choose_version(ApiKey.PRODUCE)
        request = ProduceRequest(
            None,
            acks,
            timeout_ms,
            [
                PartitionRecords(partition.topic, partition.partition, memoryview(records))
                for partition, records in sorted(batches.items(), key=lambda item: item[0])
            ],
        )
        body = encode_produce(version, request)
        if acks == 0:
            connection.send_unanswered(ApiKey.PRODUCE, version, body)
            return {}
        sent = connection.send(ApiKey.PRODUCE, version, body)
        frame, position = await self._await_response(
            connection, sent, timeout_ms + self._request_timeout_ms
        )
        return match_results(batches, decode_response(version, frame, position))

    async def _leaders(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, ErrorCode]]:
        """Return the leader of each partition, or an error."""
        cluster = await self.metadata(sorted({partition.topic for partition in partitions}))
        leaders: dict[TopicPartition, tuple[int, ErrorCode]] = {}
        for partition in partitions:
            topic = cluster.topics.get(partition.topic)
            entry = topic.partitions.get(partition.partition) if topic else None
            if topic is not None and topic.error:
                leaders[partition] = (-1, ErrorCode(topic.error))
            elif topic is None or entry is None:
                leaders[partition] = (-1, ErrorCode.unknown_topic_or_partition)
            elif entry.leader < 0:
                leaders[partition] = (-1, ErrorCode.leader_not_available)
            else:
                leaders[partition] = (entry.leader, ErrorCode.none)
        return leaders


def _error(entry: Any) -> KafkaError | None:
    """Return the error of a response entry. Old versions have no message."""
    message = get(entry, "error_message", None)
    return KafkaError(entry.error_code, message or "") if entry.error_code else None


def _errors(entries: Iterable[Any]) -> dict[str, KafkaError | None]:
    return {entry.name: _error(entry) for entry in entries}


def _are_commits_unknown(listed: Mapping[TopicPartition, ListedOffset]) -> bool:
    return any(entry.error == ErrorCode.offset_not_available for entry in listed.values())


def _new_topic(topic: NewTopic) -> Fields:
    assignments = topic.assignments or {}
    return {
        "name": topic.name,
        "num_partitions": -1 if assignments else topic.partitions,
        "replication_factor": -1 if assignments else topic.replication_factor,
        "assignments": [
            {"partition_index": index, "broker_ids": brokers}
            for index, brokers in assignments.items()
        ],
        "configs": [{"name": name, "value": value} for name, value in topic.configs.items()],
    }
