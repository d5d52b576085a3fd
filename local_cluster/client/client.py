"""A Kafka client for raw record bytes and admin calls, on asyncio.

One connection per broker, opened on first use and again after it broke. Nothing here retries
data calls: the callers know what a lost answer means for them. Admin calls follow the controller
and the group coordinator, with bounded retries.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_delay,
    wait_random_exponential,
)

from local_cluster.wire import fetch as fetch_codec
from local_cluster.wire import produce as produce_codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import Fields, get

from .connection import Connection, connect
from .model import (
    BrokerAddress,
    ClusterMetadata,
    FetchedPartition,
    FetchPosition,
    ListedOffset,
    NewTopic,
    PartitionMetadata,
    ProducedPartition,
    TopicMetadata,
    TopicPartition,
)

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
CONSUMER_REPLICA_ID: Final = -1
RETRY_SECONDS_MAX: Final = 20.0
"""How long an admin call follows a moving controller or coordinator."""
RETRY_WAIT_SECONDS_MAX: Final = 1.0
TOPIC_RESOURCE: Final = 2
_NO_ID: Final = uuid.UUID(int=0)

_MOVED: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_controller,
        ErrorCode.network_exception,
    }
)


class KafkaClient:
    """A client of one cluster, from a bootstrap list "host:port,host:port"."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "heliograph",
        request_timeout_ms: int = 30_000,
    ) -> None:
        self._bootstrap = [parse_address(part) for part in bootstrap.split(",") if part.strip()]
        if not self._bootstrap:
            raise ValueError("bootstrap names no address")
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._connections: dict[int, Connection] = {}
        self._dialing: dict[int, asyncio.Lock] = {}
        self._brokers: dict[int, BrokerAddress] = {}
        self._controller_id = -1
        self._coordinators: dict[str, int] = {}
        self._any: Connection | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; requests in flight fail with NETWORK_EXCEPTION."""
        self._closed = True
        connections = [*self._connections.values(), *([self._any] if self._any else [])]
        self._connections.clear()
        self._any = None
        for connection in connections:
            await connection.close()

    # -- any call ---------------------------------------------------------------------------

    async def call(
        self,
        api: ApiKey,
        fields: Fields,
        *,
        node_id: int | None = None,
        version_max: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """One request to a broker (None: any), kio's response object back.

        Raises KafkaError(network_exception | request_timed_out | unsupported_version).
        """
        connection = await self._connection(node_id)
        return await self._bounded(
            connection, connection.call(api, fields, version_max), timeout_ms
        )

    async def call_coordinator(
        self, group_id: str, api: ApiKey, fields: Fields, *, timeout_ms: int | None = None
    ) -> Any:
        """One request to the group's coordinator, found first and followed when it moves.

        The response's top-level error decides; errors inside partitions are the caller's.
        Raises KafkaError for any other top-level error.
        """

        async def attempt() -> Any:
            node_id = await self._coordinator(group_id)
            try:
                response = await self.call(api, fields, node_id=node_id, timeout_ms=timeout_ms)
                code = _first_error(response)
                if code in _MOVED:
                    raise KafkaError(code, f"coordinator of group {group_id}")
            except KafkaError as error:
                if error.code in _MOVED:
                    self._coordinators.pop(group_id, None)
                raise
            return response

        return await _retrying(attempt)

    async def call_controller(
        self, api: ApiKey, fields: Fields, *, timeout_ms: int | None = None
    ) -> Any:
        """One request to the controller, followed when it moves. Raises KafkaError."""

        async def attempt() -> Any:
            if self._controller_id not in self._brokers:
                await self.metadata([])
            node_id = self._controller_id if self._controller_id in self._brokers else None
            try:
                response = await self.call(api, fields, node_id=node_id, timeout_ms=timeout_ms)
                code = _first_error(response)
                if code in _MOVED:
                    raise KafkaError(code, "the controller moved")
            except KafkaError as error:
                if error.code in _MOVED:
                    self._controller_id = -1
                raise
            return response

        return await _retrying(attempt)

    # -- cluster and topics -----------------------------------------------------------------

    async def metadata(
        self, topics: Sequence[str] | None = None, *, allow_auto_topic_creation: bool = False
    ) -> ClusterMetadata:
        """Fresh metadata of the named topics; None means all. Raises KafkaError."""
        fields = {
            "topics": None
            if topics is None
            else [{"name": name, "topic_id": None} for name in topics],
            "allow_auto_topic_creation": allow_auto_topic_creation,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        }
        response = await self.call(ApiKey.METADATA, fields)
        brokers = {
            int(broker.node_id): BrokerAddress(
                int(broker.node_id), broker.host, int(broker.port), get(broker, "rack", None)
            )
            for broker in response.brokers
        }
        self._learn(brokers, int(get(response, "controller_id", -1)))
        return ClusterMetadata(
            get(response, "cluster_id", None),
            self._controller_id,
            brokers,
            {topic.name: _topic_metadata(topic) for topic in response.topics},
        )

    async def create_topics(
        self, topics: Sequence[NewTopic], *, timeout_ms: int = 30_000
    ) -> dict[str, KafkaError | None]:
        """Create topics; per topic None or why not. Raises KafkaError on network trouble."""
        response = await self.call_controller(
            ApiKey.CREATE_TOPICS,
            {"topics": [_new_topic(topic) for topic in topics], "timeout": timeout_ms},
        )
        return {
            entry.name: _error(entry.error_code, get(entry, "error_message", None))
            for entry in response.topics
        }

    async def delete_topics(
        self, names: Sequence[str], *, timeout_ms: int = 30_000
    ) -> dict[str, KafkaError | None]:
        """Delete topics; per topic None or why not. Raises KafkaError on network trouble."""
        response = await self.call_controller(
            ApiKey.DELETE_TOPICS, {"topic_names": list(names), "timeout": timeout_ms}
        )
        return {
            entry.name: _error(entry.error_code, get(entry, "error_message", None))
            for entry in response.responses
        }

    async def create_partitions(
        self, counts: Mapping[str, int], *, timeout_ms: int = 30_000
    ) -> dict[str, KafkaError | None]:
        """Raise topics to the given partition counts; per topic None or why not."""
        response = await self.call_controller(
            ApiKey.CREATE_PARTITIONS,
            {
                "topics": [
                    {"name": name, "count": count, "assignments": None}
                    for name, count in counts.items()
                ],
                "timeout": timeout_ms,
                "validate_only": False,
            },
        )
        return {
            entry.name: _error(entry.error_code, entry.error_message) for entry in response.results
        }

    async def describe_topic_configs(
        self, names: Sequence[str]
    ) -> dict[str, dict[str, tuple[str | None, bool]]]:
        """Per topic its configs as name -> (value, is it a default). Raises KafkaError."""
        response = await self.call(
            ApiKey.DESCRIBE_CONFIGS,
            {
                "resources": [
                    {
                        "resource_type": TOPIC_RESOURCE,
                        "resource_name": name,
                        "configuration_keys": None,
                    }
                    for name in names
                ]
            },
        )
        configs: dict[str, dict[str, tuple[str | None, bool]]] = {}
        for result in response.results:
            if result.error_code:
                raise KafkaError(result.error_code, result.error_message or "")
            configs[result.resource_name] = {
                entry.name: (entry.value, int(get(entry, "config_source", -1)) != _TOPIC_CONFIG)
                for entry in result.configs
            }
        return configs

    async def init_producer_id(self) -> tuple[int, int]:
        """A new (producer id, epoch) without a transactional id. Raises KafkaError."""

        async def attempt() -> tuple[int, int]:
            response = await self.call(
                ApiKey.INIT_PRODUCER_ID, {"transactional_id": None, "transaction_timeout": 0}
            )
            if response.error_code:
                raise KafkaError(response.error_code, "InitProducerId")
            return int(response.producer_id), int(response.producer_epoch)

        producer: tuple[int, int] = await _retrying(attempt)
        return producer

    # -- records ----------------------------------------------------------------------------

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = 0
    ) -> dict[TopicPartition, ListedOffset]:
        """Offsets by timestamp (-1 latest, -2 earliest), asked of each partition's leader."""
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
            topics: dict[str, list[Fields]] = {}
            for partition in partitions:
                topics.setdefault(partition.topic, []).append(
                    {
                        "partition_index": partition.partition,
                        "timestamp": timestamps[partition],
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
            for topic in response.topics:
                for entry in topic.partitions:
                    results[TopicPartition(topic.name, int(entry.partition_index))] = ListedOffset(
                        entry.error_code,
                        int(entry.offset),
                        int(entry.timestamp),
                        int(get(entry, "leader_epoch", -1)),
                    )
        return results

    async def fetch(
        self,
        node_id: int,
        positions: Mapping[TopicPartition, FetchPosition],
        *,
        wait_ms_max: int = 500,
        bytes_min: int = 1,
        bytes_max: int = 52_428_800,
        partition_bytes_max: int = 1_048_576,
        isolation_level: int = 0,
    ) -> dict[TopicPartition, FetchedPartition]:
        """One Fetch to one broker. Raises KafkaError for trouble with the whole request."""
        connection = await self._connection(node_id)
        version = connection.choose_version(ApiKey.FETCH)
        request = fetch_codec.FetchRequest(
            CONSUMER_REPLICA_ID,
            wait_ms_max,
            bytes_min,
            bytes_max,
            isolation_level,
            0,
            -1,
            [
                fetch_codec.FetchPartition(
                    partition.topic,
                    partition.partition,
                    position.leader_epoch,
                    position.offset,
                    -1,
                    -1,
                    partition_bytes_max,
                )
                for partition, position in sorted(positions.items())
            ],
            (),
            "",
        )
        body = fetch_codec.encode_request(version, request)
        sent = connection.send(ApiKey.FETCH, version, (body,))
        frame, position_bytes = await self._bounded(
            connection, sent, wait_ms_max + self._request_timeout_ms
        )
        error, _, partitions = fetch_codec.decode_response(version, frame, position_bytes)
        if error:
            raise KafkaError(error, "Fetch")
        return {
            TopicPartition(entry.topic, entry.partition): FetchedPartition(
                ErrorCode(entry.error_code),
                entry.high_watermark,
                entry.last_stable_offset,
                entry.log_start_offset,
                tuple(entry.aborted_transactions or ()),
                entry.records if isinstance(entry.records, memoryview) else memoryview(b""),
            )
            for entry in partitions
        }

    async def produce(
        self,
        node_id: int,
        batches: Mapping[TopicPartition, bytes | bytearray | memoryview],
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
    ) -> dict[TopicPartition, ProducedPartition]:
        """One Produce to one broker; with a connection at hand it is written before any await.

        Raises KafkaError for trouble with the whole request; whether it was applied is unknown.
        """
        connection = self._connections.get(node_id)
        if connection is None or connection.is_closed:
            connection = await self._connection(node_id)
        version = connection.choose_version(ApiKey.PRODUCE)
        request = produce_codec.ProduceRequest(
            None,
            acks,
            timeout_ms,
            [
                produce_codec.PartitionRecords(
                    partition.topic, partition.partition, memoryview(records)
                )
                for partition, records in sorted(batches.items(), key=lambda item: item[0])
            ],
        )
        body = produce_codec.encode_request(version, request)
        if acks == 0:
            connection.send_unanswered(ApiKey.PRODUCE, version, body)
            return {}
        sent = connection.send(ApiKey.PRODUCE, version, body)
        frame, position = await self._bounded(
            connection, sent, timeout_ms + self._request_timeout_ms
        )
        return {
            TopicPartition(entry.topic, entry.partition): ProducedPartition(
                ErrorCode(entry.error_code),
                entry.base_offset,
                entry.log_append_time_ms,
                entry.log_start_offset,
                entry.error_message,
            )
            for entry in produce_codec.decode_response(version, frame, position)
        }

    # -- connections ------------------------------------------------------------------------

    async def connection(self, node_id: int) -> Connection:
        """The open connection to a broker, for callers that pipeline by themselves."""
        return await self._connection(node_id)

    async def _connection(self, node_id: int | None) -> Connection:
        if self._closed:
            raise KafkaError(ErrorCode.network_exception, "the client is closed")
        if node_id is None:
            return await self._any_connection()
        found = self._connections.get(node_id)
        if found is not None and not found.is_closed:
            return found
        async with self._dialing.setdefault(node_id, asyncio.Lock()):
            found = self._connections.get(node_id)
            if found is not None and not found.is_closed:
                return found
            if node_id not in self._brokers:
                await self.metadata([])
            address = self._brokers.get(node_id)
            if address is None:
                raise KafkaError(ErrorCode.broker_not_available, f"broker {node_id} is not known")
            connection = await self._dial(address.host, address.port)
            self._connections[node_id] = connection
            return connection

    async def _any_connection(self) -> Connection:
        for connection in self._connections.values():
            if not connection.is_closed:
                return connection
        async with self._dialing.setdefault(-1, asyncio.Lock()):
            if self._any is not None and not self._any.is_closed:
                return self._any
            addresses = [(broker.host, broker.port) for broker in self._brokers.values()]
            random.shuffle(addresses)
            failure: KafkaError | None = None
            for host, port in dict.fromkeys([*self._bootstrap, *addresses]):
                try:
                    self._any = await self._dial(host, port)
                    return self._any
                except KafkaError as error:
                    failure = error
            assert failure is not None, "the bootstrap list is never empty"
            raise failure

    async def _dial(self, host: str, port: int) -> Connection:
        return await connect(
            host, port, client_id=self._client_id, timeout_ms=self._request_timeout_ms
        )

    async def _bounded(self, connection: Connection, sent: Any, timeout_ms: int | None) -> Any:
        limit_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                return await sent
        except TimeoutError as error:
            connection.abort(f"no answer within {limit_ms} ms")
            raise KafkaError(
                ErrorCode.request_timed_out, f"no answer within {limit_ms} ms"
            ) from error

    def _learn(self, brokers: dict[int, BrokerAddress], controller_id: int) -> None:
        for node_id, address in self._brokers.items():
            moved = node_id in brokers and brokers[node_id][1:3] != address[1:3]
            if moved and node_id in self._connections:
                self._connections.pop(node_id).abort("the broker has a new address")
        self._brokers = brokers
        self._controller_id = controller_id

    async def _coordinator(self, group_id: str) -> int:
        if group_id not in self._coordinators:
            response = await self.call(
                ApiKey.FIND_COORDINATOR, {"key": group_id, "key_type": 0}, version_max=3
            )
            if response.error_code:
                raise KafkaError(response.error_code, f"FindCoordinator of {group_id}")
            node_id = int(response.node_id)
            if node_id not in self._brokers:
                await self.metadata([])
            self._coordinators[group_id] = node_id
        return self._coordinators[group_id]

    async def _leaders(
        self, partitions: Mapping[TopicPartition, Any]
    ) -> dict[TopicPartition, tuple[int, ErrorCode]]:
        cluster = await self.metadata(sorted({partition.topic for partition in partitions}))
        leaders: dict[TopicPartition, tuple[int, ErrorCode]] = {}
        for partition in partitions:
            topic = cluster.topics.get(partition.topic)
            entry = topic.partitions.get(partition.partition) if topic else None
            if topic is None or entry is None:
                leaders[partition] = (-1, ErrorCode.unknown_topic_or_partition)
            elif entry.leader < 0:
                leaders[partition] = (-1, ErrorCode.leader_not_available)
            else:
                leaders[partition] = (entry.leader, ErrorCode.none)
        return leaders


_TOPIC_CONFIG: Final = 1
"""ConfigSource of a value that was set on the topic itself."""


def parse_address(text: str) -> tuple[str, int]:
    """ "host:port" or "[v6]:port". Raises ValueError."""
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"{text!r} is not host:port")
    return host.strip("[]"), int(port)


def _first_error(response: Any) -> ErrorCode:
    """The top-level error, or for per-topic answers a NOT_CONTROLLER among them."""
    code = get(response, "error_code", ErrorCode.none)
    if code:
        return ErrorCode(code)
    for field in ("topics", "responses", "results"):
        for entry in get(response, field, None) or ():
            if get(entry, "error_code", 0) == ErrorCode.not_controller:
                return ErrorCode.not_controller
            for partition in get(entry, "partitions", None) or ():
                if get(partition, "error_code", 0) in _MOVED:
                    return ErrorCode(partition.error_code)
    return ErrorCode.none


def _error(code: int, message: str | None) -> KafkaError | None:
    return KafkaError(code, message or "") if code else None


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


def _topic_metadata(topic: Any) -> TopicMetadata:
    topic_id = get(topic, "topic_id", None)
    return TopicMetadata(
        topic.name,
        None if topic_id == _NO_ID else topic_id,
        topic.error_code,
        bool(get(topic, "is_internal", False)),
        {
            int(entry.partition_index): PartitionMetadata(
                int(entry.partition_index),
                int(entry.leader_id),
                int(get(entry, "leader_epoch", -1)),
                tuple(map(int, entry.replica_nodes)),
                tuple(map(int, entry.isr_nodes)),
                entry.error_code,
            )
            for entry in topic.partitions
        },
    )


async def _retrying(attempt: Any) -> Any:
    retrying = AsyncRetrying(
        retry=retry_if_exception(lambda e: isinstance(e, KafkaError) and e.code in _MOVED),
        stop=stop_after_delay(RETRY_SECONDS_MAX),
        wait=wait_random_exponential(multiplier=0.05, max=RETRY_WAIT_SECONDS_MAX),
        reraise=True,
    )
    return await retrying(attempt)
