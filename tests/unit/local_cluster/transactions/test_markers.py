"""Every partition that joined gets a marker, except deleted ones."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, cast

import pytest

from local_cluster.controller.model.cluster_image import (
    OFFSETS_TOPIC,
    BrokerEndpoints,
    ClusterImage,
    TopicState,
    difference,
)
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.coordinator_runtime import partition_runtime
from local_cluster.handlers.services import BrokerServices
from local_cluster.network import ConnectToPeer
from local_cluster.records.control import EndMarker
from local_cluster.settings import BrokerSettings, Listener
from local_cluster.transactions import markers
from local_cluster.transactions.coordinator import TransactionCoordinator
from local_cluster.transactions.markers import MarkerSender, write_markers
from local_cluster.transactions.requests import AddRequest
from local_cluster.transactions.transaction import Transaction
from local_cluster.transactions.transaction_fsm import TransactionState
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.samples import partition
from tests.unit.local_cluster.groups.doubles import FakeBroker

ME, LEADER = 1, 2


class RemoteLeader:
    """A broker that leads nothing itself."""

    def __init__(self, metadata: MetadataCache, settings: BrokerSettings) -> None:
        self.metadata = metadata
        self.settings = settings


def broker_that_knows(partitions: int, *, is_whole: bool = True) -> Any:
    """Return a broker that knows topic t with this many partitions, all led by another broker."""
    cache = MetadataCache()
    cache.broker_epoch = 1
    states = {index: partition(index, LEADER) for index in range(partitions)}
    image = ClusterImage(
        LEADER,
        1,
        1,
        {LEADER: BrokerEndpoints(LEADER, None, {"L": ("h", 1)})},
        {"t": TopicState("t", uuid.UUID(int=1), states, {})},
        {},
        is_whole=is_whole,
    )
    cache.apply(difference(None, image, 1))
    settings = BrokerSettings(
        cluster="c",
        broker_id=ME,
        listeners=(Listener(name="L", host="h", port=0),),
        inter_broker_listener="L",
        zookeeper_connect="",
        log_dirs=("",),
        ready_file="",
    )
    return RemoteLeader(cache, settings)


def decided(*partitions: tuple[str, int]) -> Transaction:
    """Return a transaction with a decided commit in these partitions."""
    return Transaction(
        transactional_id="x",
        producer_id=1,
        producer_epoch=0,
        timeout_ms=1,
        state=TransactionState.PREPARE_COMMIT,
        partitions=frozenset(partitions),
    )


class Connections:
    """A leader on another broker that writes every marker."""

    def __init__(self) -> None:
        self.marked: list[int] = []

    async def call(self, broker_id: int, api: Any, fields: Any, version: int) -> Any:
        (marker,) = fields["markers"]
        (topic,) = marker["topics"]
        self.marked += topic["partition_indexes"]
        written = [
            {"partition_index": index, "error_code": ErrorCode.none}
            for index in topic["partition_indexes"]
        ]
        topics = [{"name": topic["name"], "partitions": written}]
        results = {"markers": [{"producer_id": marker["producer_id"], "topics": topics}]}
        body = messages.encode_response(api, version, results)
        return messages.decode_response(api, version, memoryview(body), 0)


async def test_a_deleted_partition_needs_no_marker() -> None:
    """The topic was deleted and re-created with fewer partitions."""
    connections = Connections()
    send = MarkerSender(broker_that_knows(1), connections).send
    async with asyncio.timeout(30):
        assert await send(decided(("t", 0), ("t", 5), ("gone", 0)), 0)
    assert connections.marked == [0]


async def test_a_missing_partition_gets_its_marker_later() -> None:
    """The controller could not read the topic, and repairs it later."""
    connections = Connections()
    broker = broker_that_knows(0, is_whole=False)
    sending = asyncio.create_task(MarkerSender(broker, connections).send(decided(("t", 0)), 0))
    async with asyncio.timeout(30):
        await asyncio.wait({sending}, timeout=0.1)
        assert not sending.done()
        broker.metadata = broker_that_knows(1, is_whole=False).metadata
        assert await sending
    assert connections.marked == [0]


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, "t"])
async def test_a_marker_that_cannot_be_committed_is_not_written(topic: str) -> None:
    """It is refused with an error after which coordinators retry, Kafka's too."""
    broker = FakeBroker(partitions=2)
    await broker.lead()
    under_min_isr = broker.partitions[0]
    under_min_isr.is_under_min_isr = True

    async def write() -> dict[tuple[str, int], ErrorCode]:
        return await write_markers(
            cast(BrokerServices, broker),
            [(topic, 0), (topic, 1)],
            producer_id=1,
            producer_epoch=0,
            marker=EndMarker(True, 1),
        )

    assert await write() == {
        (topic, 0): ErrorCode.not_enough_replicas,
        (topic, 1): ErrorCode.none,
    }
    assert not under_min_isr.batches
    under_min_isr.is_under_min_isr = False
    assert set((await write()).values()) == {ErrorCode.none}
    assert len(under_min_isr.batches) == 1
    await broker.groups.stop()


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, "t"])
async def test_an_uncommitted_marker_times_out(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other partitions get their response."""
    monkeypatch.setattr(markers, "COMMIT_SECONDS_MAX", 0.01)
    broker = FakeBroker(partitions=2)
    await broker.lead()
    broker.partitions[0].commits_at_once = False
    errors = await asyncio.wait_for(
        write_markers(
            cast(BrokerServices, broker),
            [(topic, 0), (topic, 1)],
            producer_id=1,
            producer_epoch=0,
            marker=EndMarker(True, 1),
        ),
        60,
    )
    assert errors == {(topic, 0): ErrorCode.request_timed_out, (topic, 1): ErrorCode.none}
    broker.partitions[0].commit()
    await broker.groups.stop()


@pytest.mark.parametrize("is_loading", [True, False], ids=["loading", "load-failed"])
async def test_a_marker_at_a_loading_group_coordinator_is_refused_as_not_leader(
    is_loading: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Kafka: kafka-transactions retries after this error, and gives up after others."""
    monkeypatch.setattr(partition_runtime, "LOAD_ATTEMPTS_MAX", 1)
    broker = FakeBroker(partitions=1)
    if not is_loading:
        monkeypatch.setattr(broker.partitions[0], "log_end_offset", 5)
        await broker.lead()
    else:
        broker.add_topic(OFFSETS_TOPIC, 1)
        broker.groups.on_leadership(OFFSETS_TOPIC, 0, True)
    assert await errors_of(broker, OFFSETS_TOPIC) == {
        (OFFSETS_TOPIC, 0): ErrorCode.not_leader_or_follower
    }
    await broker.groups.stop()


async def test_a_marker_on_a_failed_log_directory_is_refused_as_unknown_partition() -> None:
    """As in Kafka; kafka-transactions would give up after KAFKA_STORAGE_ERROR."""
    broker = FakeBroker(partitions=1)
    broker.replicas.refusal = ErrorCode.kafka_storage_error
    assert await errors_of(broker, "t") == {("t", 0): ErrorCode.unknown_topic_or_partition}


async def errors_of(broker: FakeBroker, topic: str) -> dict[tuple[str, int], ErrorCode]:
    """Write a marker to the topic's first partition and return the errors."""
    return await write_markers(
        cast(BrokerServices, broker),
        [(topic, 0)],
        producer_id=1,
        producer_epoch=0,
        marker=EndMarker(True, 1),
    )


async def test_a_partition_outside_the_metadata_may_not_join() -> None:
    """It would be taken for a deleted one, and would get no marker."""
    coordinator = TransactionCoordinator(cast(BrokerServices, broker_that_knows(1)))
    request = AddRequest("x", 1, 0, frozenset({("t", 0), ("t", 1)}))
    with pytest.raises(KafkaError) as refused:
        await coordinator.add_partitions(request)
    assert refused.value.code is ErrorCode.unknown_topic_or_partition


class SilentConnection:
    """A connection to another broker that never responds."""

    is_closed = False

    def __init__(self) -> None:
        self.sent: list[ApiKey] = []

    def send(self, api: ApiKey, version: int, body: Any) -> asyncio.Future[Any]:
        self.sent.append(api)
        return asyncio.get_running_loop().create_future()

    def abort(self, reason: str) -> None:
        self.is_closed = True


async def test_a_waiting_marker_does_not_delay_add_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Responses come in order, and a marker may wait for replicas for seconds."""
    opened: list[SilentConnection] = []

    async def connect(host: str, port: int) -> SilentConnection:
        opened.append(SilentConnection())
        return opened[-1]

    coordinator = TransactionCoordinator(
        cast(BrokerServices, broker_that_knows(1)), cast(ConnectToPeer, connect)
    )
    monkeypatch.setattr(coordinator._topic, "is_here", lambda _: False)
    monkeypatch.setattr(coordinator._topic, "leader_of", lambda _: LEADER)
    marking = asyncio.ensure_future(coordinator._markers.send(decided(("t", 0)), 0))
    joining = asyncio.ensure_future(
        coordinator.join(AddRequest("y", 2, 0, frozenset({("t", 0)})), verify_only=True)
    )
    async with asyncio.timeout(30):
        while sum(len(connection.sent) for connection in opened) < 2:
            await asyncio.sleep(0.01)
    assert sorted(connection.sent for connection in opened) == sorted(
        [[ApiKey.ADD_PARTITIONS_TO_TXN], [ApiKey.WRITE_TXN_MARKERS]]
    )
    await coordinator.stop()
    assert all(connection.is_closed for connection in opened)
    for waiting in (marking, joining):
        waiting.cancel()
    await asyncio.gather(marking, joining, return_exceptions=True)
