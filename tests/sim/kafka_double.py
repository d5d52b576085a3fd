"""An in-memory cluster with Kafka's rules for idempotent producers, and a network that misbehaves.

`SimCluster` is the state: logs, high watermarks, producer states, leaders. `SimClient` is one
process's way to it: the same methods as `KafkaClient`, with delays, lost requests and lost answers
decided by a seeded `Network`. What a client has sent arrives even if the client is dead by then;
that is how a zombie's write comes about.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from local_cluster.client.fetch_session import FetchSession, SessionRequest, fetch_in_session
from local_cluster.client.model import (
    BrokerAddress,
    ClusterMetadata,
    FetchedPartition,
    FetchPosition,
    ListedOffset,
    NewTopic,
    PartitionMetadata,
    ProducedPartition,
    SessionAnswer,
    TopicConfigs,
    TopicMetadata,
    TopicPartition,
)
from local_cluster.fetch_sessions import FetchContext, FetchSessions
from local_cluster.records import header as h
from local_cluster.records.batch import Record, decode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import (
    FetchPartition,
    ForgottenPartition,
    PartitionFetched,
    records_size_bytes,
)

BATCHES_REMEMBERED = 5
SEQUENCE_MASK = 0x7FFFFFFF


@dataclass
class ProducerState:
    """What a partition knows of one producer id."""

    epoch: int
    batches: deque[tuple[int, int, int]] = field(
        default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED)
    )
    """(first sequence, last sequence, base offset)"""


class SimPartition:
    """One log. Offsets below `high_watermark` are committed and readable."""

    def __init__(self) -> None:
        self.batches: list[tuple[h.BatchHeader, bytes]] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.aborted: list[tuple[int, int, int]] = []
        """(producer id, first offset, last offset)"""
        self.producers: dict[int, ProducerState] = {}
        self.committed = asyncio.Event()
        self.leader_epoch = 0

    def append(self, batch: bytes | bytearray | memoryview) -> tuple[int, bool]:
        """(base offset, is it a repetition). Raises KafkaError as a broker answers."""
        header = h.read_header(batch)
        if not h.crc_is_valid(batch, 0, header):
            raise KafkaError(ErrorCode.corrupt_message, "crc")
        if header.records_count != header.last_offset_delta + 1 or header.base_offset != 0:
            raise KafkaError(ErrorCode.invalid_record, "offsets of records are not continuous")
        if header.attributes & ~h.CODEC_MASK:
            raise KafkaError(ErrorCode.invalid_record, "attributes beyond the codec")
        if header.producer_id >= 0:
            known = self._check_sequence(header)
            if known is not None:
                return known, True
        return self.place(batch, self.log_end_offset), False

    def place(self, batch: bytes | bytearray | memoryview, base_offset: int) -> int:
        """Put a batch into the log at an offset of the caller's choice, without any check."""
        assert base_offset >= self.log_end_offset
        stored = bytearray(batch)
        h.patch_base_offset(stored, 0, base_offset)
        h.patch_leader_epoch(stored, 0, self.leader_epoch)
        header = h.read_header(stored)
        self.batches.append((header, bytes(stored)))
        self.log_end_offset = header.next_offset
        if header.producer_id >= 0 and header.base_sequence >= 0:
            state = self.producers.get(header.producer_id)
            if state is None or state.epoch != header.producer_epoch:
                state = self.producers[header.producer_id] = ProducerState(header.producer_epoch)
            state.batches.append((header.base_sequence, header.last_sequence, base_offset))
        return base_offset

    def commit(self, offset: int) -> None:
        if offset > self.high_watermark:
            self.high_watermark = offset
            committed, self.committed = self.committed, asyncio.Event()
            committed.set()

    def first_offset_of(self, timestamp_ms: int) -> int:
        """Of the first committed record of that time or later, -1 where there is none."""
        return next(
            (
                record.offset
                for header, batch in self.batches
                if header.next_offset <= self.high_watermark
                for record in decode_batch(batch, 0, header)
                if record.timestamp_ms >= timestamp_ms
            ),
            -1,
        )

    def cut_back(self, offset: int) -> None:
        """Lose every batch that ends beyond an offset, as an unclean election does."""
        self.leader_epoch += 1
        self.batches = [entry for entry in self.batches if entry[0].next_offset <= offset]
        end = self.batches[-1][0].next_offset if self.batches else self.log_start_offset
        self.log_end_offset = self.high_watermark = end
        self.aborted = [entry for entry in self.aborted if entry[2] < end]

    def divergence(self, offset: int, epoch: int) -> tuple[int, int] | None:
        """(epoch, its end) where a log that ends at `offset` with `epoch` is not this one's
        beginning (KIP-595)."""
        known = max(
            (x.partition_leader_epoch for x, _ in self.batches
             if x.partition_leader_epoch <= epoch),
            default=epoch,
        )  # fmt: skip
        end = next(
            (x.base_offset for x, _ in self.batches if x.partition_leader_epoch > known),
            self.log_end_offset,
        )
        return (known, end) if known < epoch or end < offset else None

    def read(self, offset: int, bytes_max: int) -> memoryview:
        """Whole batches from the one that contains `offset`, at least one if there is any."""
        out = bytearray()
        for header, batch in self.batches:
            if header.last_offset < offset or header.next_offset > self.high_watermark:
                continue
            if out and len(out) + len(batch) > bytes_max:
                break
            out += batch
        return memoryview(out)

    def _check_sequence(self, header: h.BatchHeader) -> int | None:
        state = self.producers.get(header.producer_id)
        if state is None:
            return None  # as Kafka: without state, any sequence is taken
        if header.producer_epoch < state.epoch:
            raise KafkaError(ErrorCode.invalid_producer_epoch, "an older epoch")
        if header.producer_epoch > state.epoch:
            if header.base_sequence:
                raise KafkaError(ErrorCode.out_of_order_sequence_number, "new epoch, not 0")
            return None
        for first, last, base_offset in state.batches:
            if (first, last) == (header.base_sequence, header.last_sequence):
                return base_offset
        if header.base_sequence != (state.batches[-1][1] + 1) & SEQUENCE_MASK:
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"{header.base_sequence} after {state.batches[-1][1]}",
            )
        return None


@dataclass
class SimTopic:
    """A topic of one incarnation."""

    name: str
    topic_id: uuid.UUID
    partitions: list[SimPartition]
    configs: dict[str, str]


class SimCluster:
    """The state of one cluster of `brokers` brokers; partition leaders can be moved."""

    def __init__(self, name: str, random: Random, brokers: int = 2) -> None:
        self.name = name
        self.random = random
        self.brokers = brokers
        self.topics: dict[str, SimTopic] = {}
        self.leaders: dict[TopicPartition, int] = {}
        self.next_producer_id = 1000
        self.fetch_session_slots = 1_000
        self._fetch_sessions: dict[int, FetchSessions] = {}
        self.fetches_by_topic_id = random.random() < 0.5
        """Whether its brokers know Fetch v13."""
        self.fetch_names_count = 0
        """Partitions named in fetches of sessions so far."""
        self.denied: set[str] = set()
        """Topics that may not be read."""
        self.hidden: set[str] = set()
        """Topics that may not even be described, nor written."""
        self.refuse: Callable[[TopicPartition, h.BatchHeader], ErrorCode | None] = (
            lambda at, header: None
        )
        """A further check of every produced batch, for faults that a test wants."""
        self.refuse_records: Callable[[list[Record]], ErrorCode | None] = lambda records: None
        """The same by the records of a batch to a topic that is not internal."""

    def create(
        self, name: str, partitions: int, configs: Mapping[str, str] | None = None
    ) -> SimTopic:
        topic = SimTopic(
            name,
            uuid.UUID(int=self.random.getrandbits(128)),
            [SimPartition() for _ in range(partitions)],
            dict(configs or {}),
        )
        self.topics[name] = topic
        for index in range(partitions):
            self.leaders[TopicPartition(name, index)] = index % self.brokers
        return topic

    def topic_name(self, topic_id: uuid.UUID | None) -> str | None:
        """Of the topic that has this id now."""
        return next((name for name, each in self.topics.items() if each.topic_id == topic_id), None)

    def fetch_sessions(self, node_id: int) -> FetchSessions:
        """Those of one broker."""
        if node_id not in self._fetch_sessions:
            ids = itertools.count(1)
            self._fetch_sessions[node_id] = FetchSessions(
                lambda: next(ids), slots_max=self.fetch_session_slots
            )
        return self._fetch_sessions[node_id]

    def lose_fetch_sessions(self) -> None:
        """Every broker forgets its fetch sessions, as when it starts again."""
        for sessions in self._fetch_sessions.values():
            sessions.close()

    def partition(self, at: TopicPartition) -> SimPartition:
        return self.topics[at.topic].partitions[at.partition]

    def move_leader(self, at: TopicPartition) -> None:
        self.leaders[at] = (self.leaders[at] + 1) % self.brokers

    def find(self, at: TopicPartition, node_id: int) -> SimPartition:
        """The partition, asked of a broker. Raises KafkaError as that broker answers."""
        topic = self.topics.get(at.topic)
        if topic is None or at.partition >= len(topic.partitions):
            raise KafkaError(ErrorCode.unknown_topic_or_partition, str(at))
        if self.leaders[at] != node_id:
            raise KafkaError(ErrorCode.not_leader_or_follower, str(at))
        return topic.partitions[at.partition]


@dataclass
class Network:
    """How a client's requests fare; all zero is a perfect network."""

    random: Random
    delay_ms_max: float = 2.0
    commit_delay_ms_max: float = 2.0
    lost_request: float = 0.0
    lost_answer: float = 0.0
    late_arrival: float = 0.0
    """Share of requests that take up to `late_ms_max` to arrive."""
    late_ms_max: float = 3_000.0
    is_perfect: bool = False

    def harm(
        self,
        random: Random,
        lost: Sequence[float] = (0.0, 0.01, 0.05),
        late: Sequence[float] = (0.0, 0.02, 0.1),
    ) -> None:
        """Choose how large a share of the messages is lost, and how large a one is late."""
        self.lost_request = random.choice(lost)
        self.lost_answer = random.choice(lost)
        self.late_arrival = random.choice(late)

    def heal(self) -> None:
        self.lost_request = self.lost_answer = self.late_arrival = 0.0

    def delay_s(self) -> float:
        if self.random.random() < self.late_arrival:
            return self.random.uniform(0, self.late_ms_max) / 1000
        return self.random.uniform(0, self.delay_ms_max) / 1000


class Killed(BaseException):
    """The process of the client is dead; nothing of it may go on."""


class SimClient:
    """A client of one process, on one connection per broker."""

    def __init__(
        self, cluster: SimCluster, network: Network, step: Callable[[], None] = lambda: None
    ) -> None:
        """`step` is called before and after everything that the process does on the network;
        it may raise Killed."""
        self._cluster = cluster
        self._network = network
        self._step = step
        self._arrival_s: dict[int, float] = {}
        self._generation: dict[int, int] = {}
        self._in_flight: dict[int, list[asyncio.Future[None]]] = {}

    async def close(self) -> None:
        return

    # -- the wire ---------------------------------------------------------------------------------

    async def _exchange(self, node_id: int, apply: Callable[[], None], *, detached: bool) -> None:
        """Send, have `apply` run on the broker, wait for the answer.

        One connection: requests arrive in order, and when one is lost the connection breaks, so
        that those behind it are lost too, while those before it may have arrived.
        """
        self._step()
        loop = asyncio.get_running_loop()
        network = self._network
        generation = self._generation.setdefault(node_id, 0)
        arrival_s = max(self._arrival_s.get(node_id, 0.0), loop.time() + network.delay_s())
        self._arrival_s[node_id] = arrival_s
        is_lost = network.random.random() < network.lost_request
        is_unanswered = network.random.random() < network.lost_answer
        done: asyncio.Future[None] = loop.create_future()
        self._in_flight.setdefault(node_id, []).append(done)

        def arrive() -> None:
            if self._generation[node_id] != generation:
                return  # the connection broke before this request
            if is_lost:
                self._break(node_id)
                return
            apply()
            if is_unanswered:
                self._break(node_id)
            elif not done.done():
                done.set_result(None)

        loop.call_at(arrival_s, arrive)
        try:
            await (asyncio.shield(done) if detached else done)
        finally:
            if done in self._in_flight[node_id]:
                self._in_flight[node_id].remove(done)
        if not network.is_perfect:
            await asyncio.sleep(network.random.uniform(0, network.delay_ms_max) / 1000)
        self._step()

    def _break(self, node_id: int) -> None:
        self._generation[node_id] += 1
        for future in self._in_flight[node_id]:
            if not future.done():
                future.set_exception(KafkaError(ErrorCode.network_exception, "connection lost"))
                future.exception()

    # -- DataSource -------------------------------------------------------------------------------

    async def metadata(
        self,
        topics: Sequence[str] | None = None,
        *,
        allow_auto_topic_creation: bool = False,
        last: ClusterMetadata | None = None,
    ) -> ClusterMetadata:
        answer: list[ClusterMetadata] = []
        await self._exchange(0, lambda: answer.append(self._describe(topics)), detached=False)
        if last is not None and last.topics == answer[0].topics:
            return answer[0]._replace(topics=last.topics)
        return answer[0]

    def _describe(self, names: Sequence[str] | None) -> ClusterMetadata:
        cluster = self._cluster
        topics: dict[str, TopicMetadata] = {}
        shown = [name for name in cluster.topics if name not in cluster.hidden]
        for name in shown if names is None else names:
            topic = cluster.topics.get(name)
            if name in cluster.hidden:
                error = ErrorCode.topic_authorization_failed
                topics[name] = TopicMetadata(name, None, error, False, {})
                continue
            if topic is None:
                error = ErrorCode.unknown_topic_or_partition
                topics[name] = TopicMetadata(name, None, error, False, {})
                continue
            partitions = {
                index: PartitionMetadata(
                    index,
                    cluster.leaders[TopicPartition(name, index)],
                    0,
                    (0,),
                    (0,),
                    ErrorCode.none,
                )
                for index in range(len(topic.partitions))
            }
            topics[name] = TopicMetadata(name, topic.topic_id, ErrorCode.none, False, partitions)
        brokers = {node: BrokerAddress(node, "sim", node) for node in range(cluster.brokers)}
        return ClusterMetadata(cluster.name, 0, brokers, topics)

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = 0
    ) -> dict[TopicPartition, ListedOffset]:
        answer: dict[TopicPartition, ListedOffset] = {}

        def apply() -> None:
            for at, timestamp in timestamps.items():
                leader = self._cluster.leaders.get(at, 0)
                answer[at] = self._list_offset(leader, at, timestamp)

        await self._exchange(0, apply, detached=False)
        return answer

    async def list_offsets_of(
        self, node_id: int, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        answer: dict[TopicPartition, ListedOffset] = {}

        def apply() -> None:
            for at, timestamp in timestamps.items():
                answer[at] = self._list_offset(node_id, at, timestamp)

        await self._exchange(node_id, apply, detached=False)
        return answer

    def _list_offset(self, node_id: int, at: TopicPartition, timestamp: int) -> ListedOffset:
        try:
            partition = self._cluster.find(at, node_id)
        except KafkaError as error:
            return ListedOffset(error.code, -1, -1, -1)
        offset = partition.log_start_offset
        if timestamp == -1:
            offset = partition.high_watermark
        elif timestamp >= 0:
            offset = partition.first_offset_of(timestamp)
        return ListedOffset(ErrorCode.none, offset, -1, 0)

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
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_ms_max / 1000
        while True:
            answer: dict[TopicPartition, FetchedPartition] = {}

            def apply(into: dict[TopicPartition, FetchedPartition] = answer) -> None:
                for at, position in positions.items():
                    into[at] = self._read(node_id, at, position, partition_bytes_max)

            await self._exchange(node_id, apply, detached=False)
            if loop.time() >= deadline_s or any(
                entry.error or entry.diverging_epoch or len(entry.records)
                for entry in answer.values()
            ):
                return answer
            await asyncio.sleep(0.01)

    async def fetch_in_session(
        self,
        node_id: int,
        session: FetchSession,
        *,
        wait_ms_max: int = 500,
        bytes_min: int = 1,
        bytes_max: int = 52_428_800,
        partition_bytes_max: int = 1_048_576,
        isolation_level: int = 0,
    ) -> SessionAnswer:
        async def send(request: SessionRequest) -> SessionAnswer:
            return await self._fetch_in_session(
                node_id, session, request, wait_ms_max, partition_bytes_max
            )

        session.knows_topic_ids = self._cluster.fetches_by_topic_id
        return await fetch_in_session(session, send)

    async def close_fetch_session(self, node_id: int, session: FetchSession) -> None:
        closing = session.closing_request()
        if closing is None:
            return
        sessions = self._cluster.fetch_sessions(node_id)

        def apply() -> None:
            sessions.open(
                closing.session_id,
                closing.session_epoch,
                (),
                (),
                uses_topic_ids=False,
                now_ms=0,
            )

        await self._exchange(node_id, apply, detached=False)

    async def _fetch_in_session(
        self,
        node_id: int,
        session: FetchSession,
        request: SessionRequest,
        wait_ms_max: int,
        partition_bytes_max: int,
    ) -> SessionAnswer:
        """Each look of the waiting broker is an exchange, so that the answer may be lost when the
        session has long gone on."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_ms_max / 1000
        sessions = self._cluster.fetch_sessions(node_id)
        asked = [
            FetchPartition(
                *("" if request.is_by_id else at.topic, at.partition),
                *(-1, each.offset, each.last_fetched_epoch, -1, partition_bytes_max),
                each.topic_id if request.is_by_id else None,
            )
            for at, each in request.asked.items()
        ]
        forgotten = [
            ForgottenPartition("", at.partition, topic_id)
            if request.is_by_id
            else ForgottenPartition(*at)
            for at, topic_id in request.forgotten
        ]
        self._cluster.fetch_names_count += len(asked) + len(forgotten)
        opened: list[FetchContext] = []
        answers: list[SessionAnswer | KafkaError] = []

        def look() -> None:
            now_ms = round(loop.time() * 1000)
            try:
                if not opened:
                    opened.append(
                        sessions.open(
                            request.session_id,
                            request.session_epoch,
                            asked,
                            forgotten,
                            uses_topic_ids=request.is_by_id,
                            now_ms=now_ms,
                        )
                    )
            except KafkaError as error:
                answers.append(error)
                return
            results = [self._read_entry(node_id, entry) for entry in opened[0].partitions]
            if loop.time() >= deadline_s or any(
                each.error_code or each.diverging_epoch or records_size_bytes(each.records)
                for each in results
            ):
                by_id = session if request.is_by_id else None
                answers.append(_session_answer(*opened[0].answer(results, now_ms), by_id))

        while True:
            await self._exchange(node_id, look, detached=False)
            if answers:
                if isinstance(answers[0], KafkaError):
                    raise answers[0]
                return answers[0]
            await asyncio.sleep(0.01)

    def _read_entry(self, node_id: int, entry: FetchPartition) -> PartitionFetched:
        topic = entry.topic or self._cluster.topic_name(entry.topic_id)
        if topic is None:
            return PartitionFetched(
                "", entry.partition, ErrorCode.unknown_topic_id, topic_id=entry.topic_id
            )
        read = self._read(
            node_id,
            TopicPartition(topic, entry.partition),
            FetchPosition(entry.fetch_offset, last_fetched_epoch=entry.last_fetched_epoch),
            entry.partition_bytes_max,
        )
        return PartitionFetched(
            entry.topic,
            entry.partition,
            read.error,
            read.high_watermark,
            read.last_stable_offset,
            read.log_start_offset,
            read.aborted_transactions,
            records=read.records,
            topic_id=entry.topic_id,
            diverging_epoch=read.diverging_epoch,
        )

    def _read(
        self, node_id: int, at: TopicPartition, position: FetchPosition, bytes_max: int
    ) -> FetchedPartition:
        offset = position.offset
        try:
            if at.topic in self._cluster.denied | self._cluster.hidden:
                raise KafkaError(ErrorCode.topic_authorization_failed, str(at))
            partition = self._cluster.find(at, node_id)
        except KafkaError as error:
            return FetchedPartition(error.code, -1, -1, -1, (), memoryview(b""))
        code = ErrorCode.none
        if not partition.log_start_offset <= offset <= partition.log_end_offset:
            code = ErrorCode.offset_out_of_range
        diverging = None
        if position.last_fetched_epoch >= 0 and offset >= partition.log_start_offset:
            diverging = partition.divergence(offset, position.last_fetched_epoch)
        if diverging is not None:
            end = partition.high_watermark
            return FetchedPartition(
                ErrorCode.none, end, end, partition.log_start_offset, (), memoryview(b""), diverging
            )
        records = memoryview(b"") if code else partition.read(offset, bytes_max)
        aborted = tuple(
            (producer_id, first) for producer_id, first, last in partition.aborted if last >= offset
        )
        end = partition.high_watermark
        return FetchedPartition(code, end, end, partition.log_start_offset, aborted, records)

    async def describe_topic_configs(self, names: Sequence[str]) -> dict[str, TopicConfigs]:
        configs: dict[str, TopicConfigs] = {}
        for name, answer in (await self.ask_topic_configs(names)).items():
            if isinstance(answer, KafkaError):
                raise answer
            configs[name] = answer
        return configs

    async def ask_topic_configs(self, names: Sequence[str]) -> dict[str, TopicConfigs | KafkaError]:
        answers: dict[str, TopicConfigs | KafkaError] = {}

        def apply() -> None:
            for name in names:
                if name in self._cluster.denied:
                    answers[name] = KafkaError(ErrorCode.topic_authorization_failed, name)
                    continue
                configs = self._cluster.topics[name].configs
                answers[name] = {key: (value, False) for key, value in configs.items()}

        await self._exchange(0, apply, detached=False)
        return answers

    async def topic_ids(self, node_id: int, names: Sequence[str]) -> dict[str, uuid.UUID]:
        answer: dict[str, uuid.UUID] = {}

        def apply() -> None:
            topics = self._cluster.topics
            shown = topics.keys() - self._cluster.hidden
            answer.update({name: topics[name].topic_id for name in names if name in shown})

        # Not behind a long poll: the mirror asks by another connection.
        await self._exchange(-1 - node_id, apply, detached=False)
        return answer

    # -- DataSink ---------------------------------------------------------------------------------

    async def produce(
        self,
        node_id: int,
        batches: Mapping[TopicPartition, bytes | bytearray | memoryview],
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
    ) -> dict[TopicPartition, ProducedPartition]:
        answer: dict[TopicPartition, ProducedPartition] = {}
        waiting: list[tuple[SimPartition, int]] = []
        # The bytes as they are when they are sent, whatever the process does with them later.
        sent = {at: bytes(batch) for at, batch in batches.items()}

        def apply() -> None:
            loop = asyncio.get_running_loop()
            for at, batch in sent.items():
                try:
                    partition = self._cluster.find(at, node_id)
                    refusal = self._cluster.refuse(at, h.read_header(batch))
                    if at.topic in self._cluster.hidden:
                        refusal = ErrorCode.topic_authorization_failed
                    if refusal is None and not at.topic.endswith(".internal"):
                        records = decode_batch(batch, 0, h.read_header(batch))
                        refusal = self._cluster.refuse_records(records)
                    if refusal is not None:
                        raise KafkaError(refusal, "refused by the test")
                    base_offset, repeated = partition.append(batch)
                except KafkaError as error:
                    answer[at] = ProducedPartition(error.code, -1, -1, -1, error.message)
                    continue
                answer[at] = ProducedPartition(ErrorCode.none, base_offset, -1, 0, None)
                end = base_offset + h.read_header(batch).records_count
                waiting.append((partition, end))
                if not repeated:
                    delay_s = self._network.random.uniform(0, self._network.commit_delay_ms_max)
                    loop.call_later(delay_s / 1000, partition.commit, end)

        await self._exchange(node_id, apply, detached=True)
        for partition, end in waiting:
            while partition.high_watermark < end:
                await partition.committed.wait()
        self._step()
        return answer

    async def init_producer_id(self) -> tuple[int, int]:
        answer: list[int] = []

        def apply() -> None:
            answer.append(self._cluster.next_producer_id)
            self._cluster.next_producer_id += 1

        await self._exchange(0, apply, detached=False)
        return answer[0], 0

    async def create_topics(
        self, topics: Sequence[NewTopic], *, timeout_ms: int = 30_000
    ) -> dict[str, KafkaError | None]:
        answer: dict[str, KafkaError | None] = {}

        def apply() -> None:
            for topic in topics:
                if topic.name in self._cluster.topics:
                    answer[topic.name] = KafkaError(ErrorCode.topic_already_exists, topic.name)
                else:
                    self._cluster.create(topic.name, topic.partitions, topic.configs)
                    answer[topic.name] = None

        await self._exchange(0, apply, detached=False)
        return answer

    async def create_partitions(
        self, counts: Mapping[str, int], *, timeout_ms: int = 30_000
    ) -> dict[str, KafkaError | None]:
        answer: dict[str, KafkaError | None] = {}

        def apply() -> None:
            for name, count in counts.items():
                partitions = self._cluster.topics[name].partitions
                while len(partitions) < count:
                    at = TopicPartition(name, len(partitions))
                    self._cluster.leaders[at] = at.partition % self._cluster.brokers
                    partitions.append(SimPartition())
                answer[name] = None

        await self._exchange(0, apply, detached=False)
        return answer


def _session_answer(
    error: ErrorCode,
    session_id: int,
    told: Sequence[PartitionFetched],
    by_id: FetchSession | None,
) -> SessionAnswer | KafkaError:
    if error:
        return KafkaError(error, "Fetch")
    named = [
        (name, each)
        for each in told
        if (name := by_id.topic_name(each.topic_id) if by_id else each.topic) is not None
    ]
    return SessionAnswer(
        session_id,
        0,
        {
            TopicPartition(name, each.partition): FetchedPartition(
                ErrorCode(each.error_code),
                each.high_watermark,
                each.last_stable_offset,
                each.log_start_offset,
                tuple(each.aborted_transactions or ()),
                each.records if isinstance(each.records, memoryview) else memoryview(b""),
                each.diverging_epoch,
            )
            for name, each in named
        },
        by_id is not None,
    )
