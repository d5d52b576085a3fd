"""Doubles for the coordinators: a replica in memory and a broker around it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any

from local_cluster.clock import SystemClock
from local_cluster.controller.member.current_configs import CurrentConfigs
from local_cluster.controller.model.cluster_image import (
    OFFSETS_TOPIC,
    BrokerEndpoints,
    PartitionState,
    TopicState,
)
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.groups.coordinator import GroupCoordinator
from local_cluster.groups.offsets import TopicPartition
from local_cluster.groups.requests import FetchedOffset
from local_cluster.handlers.registry import find_handler
from local_cluster.handlers.services import RequestContext
from local_cluster.log.partition.partition_log import AppendResult
from local_cluster.log.segment.segment import LogSlice
from local_cluster.records.control import EndMarker, encode_marker
from local_cluster.records.header import BatchHeader, iter_headers, patch_base_offset, read_header
from local_cluster.settings import BrokerSettings, Listener
from local_cluster.transactions.coordinator import TransactionCoordinator
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

BROKER_ID = 1


class ReadOnlyFile:
    """A file with fixed content."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def pread(self, size_bytes: int, position: int) -> bytes:
        return self._content[position : position + size_bytes]

    def fileno(self) -> int:
        raise NotImplementedError

    def write(self, buffer: bytes | bytearray | memoryview, /) -> int | None:
        raise NotImplementedError

    def truncate(self, size_bytes: int, /) -> int:
        raise NotImplementedError

    def sync(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        return


@dataclass
class FakeReplica:
    """A leading replica; with `commits_at_once` the high watermark follows the log end offset."""

    commits_at_once: bool = True
    batches: list[bytes] = field(default_factory=list)
    high_watermark: int = 0
    append_error: Exception | None = None
    append_bytes_max: int = 1 << 30
    """The maximum of one append, as the segment size limits it."""
    reads: int = 0
    is_under_min_isr: bool = False
    parked: list[tuple[int, asyncio.Future[None]]] = field(default_factory=list)
    log_start_offset: int = 0
    log_end_offset: int = 0

    @property
    def log(self) -> FakeReplica:
        return self

    def append(
        self, buffer: bytearray | memoryview, headers: Sequence[BatchHeader]
    ) -> AppendResult:
        if self.append_error is not None:
            raise self.append_error
        if len(buffer) > self.append_bytes_max:
            raise KafkaError(ErrorCode.record_list_too_large)
        starts = [position for position, _ in iter_headers(buffer)]
        assert len(starts) == len(headers)
        for position in starts:
            patch_base_offset(buffer, position, self.log_end_offset)
            header = read_header(buffer, position)
            self.batches.append(bytes(buffer[position : position + header.size_bytes]))
            self.log_end_offset = header.next_offset
        if self.commits_at_once:
            self.commit()
        last_offset = self.log_end_offset - 1
        return AppendResult(last_offset, last_offset, -1, self.log_start_offset, False)

    def append_marker(
        self, marker: EndMarker, *, producer_id: int, producer_epoch: int
    ) -> AppendResult:
        batch = encode_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=0
        )
        return self.append(batch, [read_header(batch)])

    def require_in_sync_replicas(self) -> None:
        if self.is_under_min_isr:
            raise KafkaError(ErrorCode.not_enough_replicas)

    @property
    def leader_epoch(self) -> int:
        return 3

    def commit(self) -> None:
        self.high_watermark = self.log_end_offset
        for next_offset, future in self.parked:
            if not future.done() and next_offset <= self.high_watermark:
                future.set_result(None)

    def fail_commits(self) -> None:
        for _, future in self.parked:
            if not future.done():
                future.set_exception(KafkaError(ErrorCode.not_leader_or_follower))

    def committed(self, next_offset: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.parked.append((next_offset, future))
        if next_offset <= self.high_watermark:
            future.set_result(None)
        return future

    def read(
        self, offset: int, *, bytes_max: int, offset_limit: int, at_least_one_batch: bool
    ) -> LogSlice | None:
        self.reads += 1
        for batch in self.batches:
            next_offset = read_header(batch).next_offset
            if next_offset > offset:
                return LogSlice(ReadOnlyFile(batch), 0, len(batch), next_offset)
        return None


class FakeControlPlane:
    """Records topic creations; the test decides when the topic appears."""

    def __init__(self) -> None:
        self.created: list[str] = []
        self.error: KafkaError | None = None

    async def auto_create_topic(self, name: str) -> KafkaError | None:
        self.created.append(name)
        await asyncio.sleep(0)
        return self.error


class FakeMetadata(MetadataCache):
    """Metadata whose topics and brokers the test sets directly."""

    def topic_by_id(self, topic_id: uuid.UUID) -> TopicState | None:
        found = (topic for topic in self.topics.values() if topic.topic_id == topic_id)
        return next(found, None)


class FakeReplicas:
    """The replicas of a broker that leads all of them, or refuses every lookup."""

    def __init__(self, partitions: dict[int, FakeReplica]) -> None:
        self._partitions = partitions
        self.refusal: ErrorCode | None = None

    def get_leader(self, topic: str, partition: int) -> FakeReplica:
        if self.refusal is not None:
            raise KafkaError(self.refusal)
        return self._partitions[partition]


class FakeBroker:
    """The services of handlers: one broker that leads all partitions of the offsets topic."""

    def __init__(self, *, partitions: int = 2, config: dict[str, str] | None = None) -> None:
        self.settings = BrokerSettings(
            cluster="test",
            broker_id=BROKER_ID,
            listeners=(Listener(name="PLAINTEXT", host="127.0.0.1", port=0),),
            inter_broker_listener="PLAINTEXT",
            zookeeper_connect="",
            log_dirs=("",),
            ready_file="",
            config=config or {},
        )
        self.clock = SystemClock()
        self.control_plane = FakeControlPlane()
        listeners = {"PLAINTEXT": ("127.0.0.1", 9092), "OUTSIDE": ("kafka.example", 19092)}
        self.metadata = FakeMetadata()
        self.configs = CurrentConfigs(self.settings, self.metadata)
        self.metadata.brokers = {BROKER_ID: BrokerEndpoints(BROKER_ID, None, listeners)}
        self.metadata.is_whole = True
        self.partitions = {index: FakeReplica() for index in range(partitions)}
        self.replicas = FakeReplicas(self.partitions)
        self.denied: set[tuple[str, str]] = set()
        self.groups = GroupCoordinator(self)  # type: ignore[arg-type]
        self.transactions = TransactionCoordinator(self)  # type: ignore[arg-type]

    def add_topic(self, name: str, partitions: int, leader: int = BROKER_ID) -> None:
        states = {
            index: PartitionState(index, (leader,), leader, 0, (leader,), 0)
            for index in range(partitions)
        }
        topic = TopicState(name, uuid.uuid4(), states, {})
        self.metadata.topics = {**self.metadata.topics, name: topic}

    async def lead(self) -> None:
        """Create the offsets topic and load every partition."""
        self.add_topic(OFFSETS_TOPIC, len(self.partitions))
        for index in self.partitions:
            self.groups.on_leadership(OFFSETS_TOPIC, index, True)
        await self.loaded()

    async def loaded(self) -> None:
        while self.groups.list_groups()[0] is ErrorCode.coordinator_load_in_progress:
            await asyncio.sleep(0)

    async def positions(
        self, group_id: str, partitions: tuple[TopicPartition, ...] | None = None
    ) -> tuple[FetchedOffset, ...]:
        """Return the committed offsets of a group."""
        found = await self.groups.fetch_offsets(group_id, partitions)
        assert not isinstance(found, ErrorCode), found
        return found

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, name: str
    ) -> bool:
        return (operation, name) not in self.denied

    may = holds = authorize

    def holds_for_topic(self, context: RequestContext, operation: str, topic: str) -> bool:
        return (operation, "kafka-cluster") not in self.denied

    def send(self, api: ApiKey, version: int, **fields: Any) -> asyncio.Task[Any]:
        """Send one request through the wire format both ways; the task returns kio's response."""
        handler = find_handler(api)
        assert handler is not None
        assert handler.min_version <= version <= handler.max_version
        frame = memoryview(messages.encode_request(api, version, fields))
        request: Any = frame if handler.raw else messages.decode_request(api, version, frame, 0)
        context = RequestContext(
            api, version, 1, "client", "User:ANONYMOUS", "PLAINTEXT", "127.0.0.1", 1
        )
        reply = handler.function(self, context, request)  # type: ignore[arg-type]

        async def finish() -> Any:
            values = await reply if isawaitable(reply) else reply
            body = values
            if not isinstance(body, bytes):
                body = messages.encode_response(api, version, values)  # type: ignore[arg-type]
            return messages.decode_response(api, version, memoryview(body), 0)

        return asyncio.ensure_future(finish())
