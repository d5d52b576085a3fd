"""A Kafka client for raw record bytes and admin calls, on asyncio.

What finds and follows brokers is in `calls.py`; here are the calls with their types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_random_exponential

from local_cluster.client.calls import ClusterCalls, retrying
from local_cluster.client.fetch_session import FetchSession, SessionRequest, fetch_in_session
from local_cluster.client.model import (
    FetchedPartition,
    FetchPosition,
    ListedOffset,
    NewTopic,
    ProducedPartition,
    SessionAnswer,
    TopicConfigs,
    TopicPartition,
)
from local_cluster.client.produce_batches import ProduceBatches
from local_cluster.client.throttled import until_answered
from local_cluster.wire import fetch as fetch_codec
from local_cluster.wire import produce as produce_codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import (
    CONSUMER_REPLICA_ID,
    READ_UNCOMMITTED,
    ConfigResourceType,
    ConfigSource,
)
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import Fields, get

COMMITS_KNOWN_SECONDS_MAX: Final = 10.0
"""How long a new leader may take to know what is committed before callers are told so."""
ANSWERS_SHOWN_MAX: Final = 5
"""Partitions named in an error about an odd answer."""


class KafkaClient(ClusterCalls):
    """A client of one cluster, from a bootstrap list "host:port,host:port"."""

    # -- topics -----------------------------------------------------------------------------

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

    async def describe_topic_configs(self, names: Sequence[str]) -> dict[str, TopicConfigs]:
        """Per topic its configs. Raises KafkaError, also where one of them is not told."""
        configs: dict[str, TopicConfigs] = {}
        for name, answer in (await self.ask_topic_configs(names)).items():
            if isinstance(answer, KafkaError):
                raise answer
            configs[name] = answer
        return configs

    async def ask_topic_configs(self, names: Sequence[str]) -> dict[str, TopicConfigs | KafkaError]:
        """Per topic its configs, or why they are not told. Raises KafkaError."""
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
            result.resource_name: _error(result.error_code, result.error_message)
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
        """A new (producer id, epoch) without a transactional id. Raises KafkaError."""

        async def attempt() -> tuple[int, int]:
            response = await self.call(
                ApiKey.INIT_PRODUCER_ID, {"transactional_id": None, "transaction_timeout": 0}
            )
            if response.error_code:
                raise KafkaError(response.error_code, "InitProducerId")
            return int(response.producer_id), int(response.producer_epoch)

        producer: tuple[int, int] = await retrying(attempt)
        return producer

    # -- records ----------------------------------------------------------------------------

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListedOffset]:
        """Offsets by timestamp (-1 latest, -2 earliest), asked of each partition's leader.

        Waits a little for a leader that does not know yet what is committed (KIP-207).
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
            asked = {partition: timestamps[partition] for partition in partitions}
            results |= await self.list_offsets_of(node_id, asked, isolation_level=isolation_level)
        return results

    async def list_offsets_of(
        self,
        node_id: int,
        timestamps: Mapping[TopicPartition, int],
        *,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> dict[TopicPartition, ListedOffset]:
        """As `list_offsets`, in one request to a broker that leads them; what it does not lead, or
        does not know what is committed of, has an error. Raises KafkaError."""
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
        """One Fetch to one broker: an answer for every partition that is asked for.

        What a quota holds back is waited for, see `throttled`. Raises KafkaError for trouble with
        the whole request.
        """
        request = fetch_codec.FetchRequest(
            CONSUMER_REPLICA_ID,
            wait_ms_max,
            bytes_min,
            bytes_max,
            isolation_level,
            fetch_codec.NO_SESSION,
            fetch_codec.FINAL_EPOCH,
            _fetch_partitions(positions, partition_bytes_max),
            (),
            "",
        )
        return await until_answered(positions.keys(), lambda: self._fetch(node_id, request))

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
        """One Fetch of everything that the session wants; what has no news is not in the answer.

        The session is this broker's, and used by one call at a time. Raises KafkaError for trouble
        with the whole request.
        """

        async def send(asked: SessionRequest) -> SessionAnswer:
            forgotten = [
                fetch_codec.ForgottenPartition(at.topic, at.partition, topic_id)
                for at, topic_id in sorted(asked.forgotten)
            ]
            request = fetch_codec.FetchRequest(
                CONSUMER_REPLICA_ID,
                wait_ms_max,
                bytes_min,
                bytes_max,
                isolation_level,
                asked.session_id,
                asked.session_epoch,
                _fetch_partitions(asked.asked, partition_bytes_max),
                forgotten,
                "",
            )
            return await self._fetch(node_id, request, session if asked.is_by_id else None)

        connection = await self._connection(node_id)
        session.knows_topic_ids = connection.has_version(ApiKey.FETCH, fetch_codec.TOPIC_IDS_SINCE)
        return await fetch_in_session(session, send)

    async def close_fetch_session(self, node_id: int, session: FetchSession) -> None:
        """Tell the broker that the session is over, so that its place there is free (KIP-227).

        A poll that is on its way may be refused by that. Raises KafkaError.
        """
        closing = session.closing_request()
        if closing is None:
            return
        request = fetch_codec.FetchRequest(
            CONSUMER_REPLICA_ID, 0, 0, 0, 0, closing.session_id, closing.session_epoch, (), (), ""
        )
        await self._fetch(node_id, request)

    async def _fetch(
        self, node_id: int, request: fetch_codec.FetchRequest, by_id: FetchSession | None = None
    ) -> SessionAnswer:
        """`by_id`: the session that knows the names of the topics, where ids are asked for."""
        connection = await self._connection(node_id)
        version = connection.choose_version(ApiKey.FETCH)
        if by_id is not None:
            version = fetch_codec.TOPIC_IDS_SINCE
            if not connection.has_version(ApiKey.FETCH, version):
                # An older broker has come in its place; a session does not change its way.
                raise KafkaError(ErrorCode.fetch_session_topic_id_error, "Fetch")
        body = fetch_codec.encode_request(version, request)
        sent = connection.send(ApiKey.FETCH, version, (body,))
        frame, position_bytes = await self._bounded(
            connection, sent, request.wait_ms_max + self._request_timeout_ms
        )
        error, session_id, partitions = fetch_codec.decode_response(version, frame, position_bytes)
        if error:
            raise KafkaError(error, "Fetch")
        fetched = {}
        for entry in partitions:
            name = entry.topic if by_id is None else by_id.topic_name(entry.topic_id)
            if name is not None:
                fetched[TopicPartition(name, entry.partition)] = FetchedPartition(
                    ErrorCode(entry.error_code),
                    entry.high_watermark,
                    entry.last_stable_offset,
                    entry.log_start_offset,
                    tuple(entry.aborted_transactions or ()),
                    entry.records if isinstance(entry.records, memoryview) else memoryview(b""),
                    entry.diverging_epoch,
                )
        throttle_ms = int.from_bytes(frame[position_bytes : position_bytes + 4], "big", signed=True)
        return SessionAnswer(session_id, throttle_ms, fetched, by_id is not None)

    async def produce(
        self,
        node_id: int,
        batches: ProduceBatches,
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
    ) -> dict[TopicPartition, ProducedPartition]:
        """One Produce to one broker; with a connection at hand it is written before any await.

        Every batch has its answer in what is returned, unless `acks` is 0. Raises KafkaError for
        trouble with the whole request; whether it was applied is unknown.
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
        return match_answers(batches, produce_codec.decode_response(version, frame, position))

    async def _leaders(
        self, partitions: Mapping[TopicPartition, Any]
    ) -> dict[TopicPartition, tuple[int, ErrorCode]]:
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


def _error(code: int, message: str | None) -> KafkaError | None:
    return KafkaError(code, message or "") if code else None


def _are_commits_unknown(listed: Mapping[TopicPartition, ListedOffset]) -> bool:
    return any(entry.error == ErrorCode.offset_not_available for entry in listed.values())


def _fetch_partitions(
    positions: Mapping[TopicPartition, FetchPosition], partition_bytes_max: int
) -> list[fetch_codec.FetchPartition]:
    """As they stand in a request: those of a topic side by side."""
    return [
        fetch_codec.FetchPartition(
            partition.topic,
            partition.partition,
            position.leader_epoch,
            position.offset,
            position.last_fetched_epoch,
            -1,
            partition_bytes_max,
            position.topic_id,
        )
        for partition, position in sorted(positions.items())
    ]


def match_answers(
    batches: ProduceBatches, answers: Sequence[produce_codec.PartitionProduceResponse]
) -> dict[TopicPartition, ProducedPartition]:
    """The answer to each batch. Raises KafkaError where a batch has none, or more than one."""
    produced = {
        TopicPartition(entry.topic, entry.partition): ProducedPartition(
            ErrorCode(entry.error_code),
            entry.base_offset,
            entry.log_append_time_ms,
            entry.log_start_offset,
            entry.error_message,
        )
        for entry in answers
    }
    is_one_each = len(answers) == len(produced) == len(batches)
    if not is_one_each or not all(at in batches for at in produced):
        named = ", ".join(map(str, list(produced)[:ANSWERS_SHOWN_MAX]))
        raise KafkaError(
            ErrorCode.unknown_server_error,
            f"Produce of {len(batches)} batches was answered for {len(answers)}: {named}",
        )
    return produced


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
