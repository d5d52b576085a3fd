"""A cluster in memory that implements `ClusterReader`, and maps as a link publishes them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aggregator.settings import AggregatorSettings, LinkSettings
from local_cluster.client.model import (
    BrokerAddress,
    ClusterMetadata,
    FetchedPartition,
    FetchPosition,
    ListedOffset,
    PartitionMetadata,
    TopicMetadata,
    TopicPartition,
)
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import iter_headers
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import decode_response, encode_request, encode_response
from mirror_maker.formats import Block, FlowKey, Opening, Run, encode_record

SOURCE_TOPIC_ID = uuid.UUID(int=1)
LEADER = 7
DESCRIBE_GROUPS_VERSION = 5


@dataclass
class FakeTopic:
    """One topic; only partition 0 has records."""

    partitions: int = 1
    topic_id: uuid.UUID | None = field(default_factory=uuid.uuid4)
    log: bytearray = field(default_factory=bytearray)
    log_start_offset: int = 0
    next_offset: int = 0
    error: ErrorCode = ErrorCode.none
    aborted: tuple[tuple[int, int, int], ...] = ()
    """(producer id, first offset, offset of the abort marker)."""

    def append(self, *records: tuple[bytes | None, bytes | None], **options: Any) -> None:
        self.log += encode_batch(
            [NewRecord(1_000, key, value) for key, value in records],
            base_offset=self.next_offset,
            **options,
        )
        self.next_offset += len(records)


class FakeCluster:
    """Responds like one broker; `down` makes every call fail."""

    def __init__(self) -> None:
        self.topics: dict[str, FakeTopic] = {}
        self.down = False
        self.closed = False
        self.offsets: dict[str, dict[tuple[str, int], int]] = {}
        self.coordinator_errors: list[ErrorCode] = []
        self.worker_group_state = "Dead"
        self.workers: list[tuple[str, bytes]] = []
        """(client host, subscription) of the mirror workers."""
        self.stalled = asyncio.Event()
        self.stalled.set()

    async def call(
        self,
        api: ApiKey,
        fields: Mapping[str, Any],
        *,
        node_id: int | None = None,
        version_max: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        await self._reach()
        assert version_max is not None
        encode_request(api, version_max, fields)  # the fields must be those of the version
        if api is ApiKey.FIND_COORDINATOR:
            error = self.coordinator_errors.pop(0) if self.coordinator_errors else ErrorCode.none
            answer: dict[str, Any] = {
                "error_code": error,
                "error_message": None,
                "node_id": LEADER,
                "host": "localhost",
                "port": 1,
            }
        else:
            assert api is ApiKey.OFFSET_FETCH
            assert node_id == LEADER
            answer = {"error_code": ErrorCode.none, "topics": self._committed(fields["group_id"])}
        body = encode_response(api, version_max, answer)
        return decode_response(api, version_max, memoryview(body), 0)

    async def call_coordinator(
        self,
        group_id: str,
        api: ApiKey,
        fields: Mapping[str, Any],
        *,
        timeout_ms: int | None = None,
    ) -> Any:
        await self._reach()
        assert (group_id, api) == ("heliograph-mirror-nyc", ApiKey.DESCRIBE_GROUPS)
        encode_request(api, DESCRIBE_GROUPS_VERSION, fields)
        group = {
            "error_code": ErrorCode.none,
            "error_message": None,
            "group_id": group_id,
            "group_state": self.worker_group_state,
            "protocol_type": "heliograph-mirror",
            "protocol_data": "sticky",
            "members": [
                {
                    "member_id": f"member-{number}",
                    "group_instance_id": None,
                    "client_id": "worker",
                    "client_host": client_host,
                    "member_metadata": subscription,
                    "member_assignment": b"",
                }
                for number, (client_host, subscription) in enumerate(self.workers)
            ],
            "authorized_operations": 0,
        }
        body = encode_response(api, DESCRIBE_GROUPS_VERSION, {"groups": [group]})
        return decode_response(api, DESCRIBE_GROUPS_VERSION, memoryview(body), 0)

    def _committed(self, group: str) -> list[dict[str, Any]]:
        return [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "metadata": "",
                        "error_code": ErrorCode.none,
                    }
                ],
            }
            for (topic, partition), offset in self.offsets.get(group, {}).items()
        ]

    async def metadata(
        self, topics: Sequence[str] | None = None, *, allow_auto_topic_creation: bool = False
    ) -> ClusterMetadata:
        await self._reach()
        assert not allow_auto_topic_creation
        names = list(self.topics) if topics is None else topics
        return ClusterMetadata(
            "cluster",
            LEADER,
            {LEADER: BrokerAddress(LEADER, "localhost", 1)},
            {name: self._metadata(name) for name in names},
        )

    def _metadata(self, name: str) -> TopicMetadata:
        topic = self.topics.get(name)
        if topic is None:
            return TopicMetadata(name, None, ErrorCode.unknown_topic_or_partition, False, {})
        partitions = {
            index: PartitionMetadata(index, LEADER, 0, (LEADER,), (LEADER,), ErrorCode.none)
            for index in range(topic.partitions)
        }
        return TopicMetadata(name, topic.topic_id, topic.error, False, partitions)

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = 0
    ) -> dict[TopicPartition, ListedOffset]:
        await self._reach()
        listed = {}
        for at, timestamp in timestamps.items():
            topic = self.topics[at.topic]
            offset = topic.log_start_offset if timestamp == -2 else topic.next_offset
            listed[at] = ListedOffset(ErrorCode.none, offset, -1, 0)
        return listed

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
        await self._reach()
        assert node_id == LEADER
        await asyncio.sleep(0.001)
        return {at: self._fetched(at, position.offset) for at, position in positions.items()}

    def _fetched(self, at: TopicPartition, offset: int) -> FetchedPartition:
        topic = self.topics.get(at.topic)
        if topic is None:
            return FetchedPartition(
                ErrorCode.unknown_topic_or_partition, -1, -1, -1, (), memoryview(b"")
            )
        start, end = topic.log_start_offset, topic.next_offset
        if not start <= offset <= end:
            return FetchedPartition(
                ErrorCode.offset_out_of_range, end, end, start, (), memoryview(b"")
            )
        for place, header in iter_headers(topic.log):
            if header.next_offset > offset:
                # One batch at a time, so that a whole map takes several rounds.
                records = memoryview(bytes(topic.log))[place : place + header.size_bytes]
                aborted = tuple(
                    (producer_id, first)
                    for producer_id, first, marker in topic.aborted
                    if first <= header.last_offset and marker >= header.base_offset
                )
                return FetchedPartition(ErrorCode.none, end, end, start, aborted, records)
        return FetchedPartition(ErrorCode.none, end, end, start, (), memoryview(b""))

    async def close(self) -> None:
        self.closed = True

    async def _reach(self) -> None:
        await self.stalled.wait()
        if self.down:
            raise KafkaError(ErrorCode.network_exception, "connection refused")


def link_settings(source: str, **more: Any) -> LinkSettings:
    return LinkSettings(
        name=f"{source}-nyc",
        datacenter=source,
        source=source,
        source_bootstrap="127.0.0.1:1",
        **more,
    )


def settings_of(*sources: str, **more: Any) -> AggregatorSettings:
    return AggregatorSettings(
        aggregate="nyc",
        bootstrap="127.0.0.1:1",
        links=tuple(link_settings(source) for source in sources),
        **{"ready_file": "unused.json", **more},
    )


def opening_and_block(
    source_topic: str,
    partition: int,
    target_topic: str,
    target_topic_id: uuid.UUID,
    runs: Sequence[tuple[int, int, int]],
    *,
    source_next: int | None = None,
    source_topic_id: uuid.UUID = SOURCE_TOPIC_ID,
    producer_epoch: int = 0,
) -> list[tuple[bytes, bytes]]:
    """Return two records as a link publishes them: a flow, and its runs (source, target, count)."""
    flow = FlowKey(source_topic, partition, source_topic_id, target_topic_id)
    common: dict[str, Any] = {
        "flow": flow,
        "producer_id": 4_000,
        "producer_epoch": producer_epoch,
        "nonce": partition,
        "target_topic": target_topic,
    }
    source, target, _ = runs[0]
    opening = Opening(
        **common, source_offset=source, target_offset=target, opened_at_ms=0, worker_id="w"
    )
    block = Block(
        **common,
        source_start=source,
        target_start=target,
        source_next=source_next if source_next is not None else runs[-1][0] + runs[-1][2],
        next_sequence=0,
        runs=tuple(Run(*run) for run in runs),
    )
    return [encode_record(opening), encode_record(block)]
