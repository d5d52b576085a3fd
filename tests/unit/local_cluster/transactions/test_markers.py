"""Which partitions get a marker: all that joined, except those that are gone."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
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
from local_cluster.transactions.broker_lines import BrokerLines
from local_cluster.transactions.coordinator import TransactionCoordinator
from local_cluster.transactions.markers import MarkerSender, write_markers
from local_cluster.transactions.requests import AddRequest
from local_cluster.transactions.transaction import Transaction
from local_cluster.transactions.transaction_fsm import TransactionState
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.samples import partition
from tests.unit.local_cluster.groups.doubles import FakeBroker

ME, LEADER = 1, 2


def broker_that_knows(partitions: int, *, is_whole: bool = True) -> Any:
    """Topic t has so many partitions, all led by another broker."""
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
    return SimpleNamespace(metadata=cache, settings=settings)


def decided(*partitions: tuple[str, int]) -> Transaction:
    """To be committed in these."""
    return Transaction(
        transactional_id="x",
        producer_id=1,
        producer_epoch=0,
        timeout_ms=1,
        state=TransactionState.PREPARE_COMMIT,
        partitions=frozenset(partitions),
    )


class Lines:
    """The other leader writes whatever it is asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def call(self, broker_id: int, api: Any, fields: Any, version: int) -> Any:
        (marker,) = fields["markers"]
        (topic,) = marker["topics"]
        self.asked += topic["partition_indexes"]
        written = [
            SimpleNamespace(partition_index=index, error_code=ErrorCode.none)
            for index in topic["partition_indexes"]
        ]
        topics = [SimpleNamespace(name=topic["name"], partitions=written)]
        return SimpleNamespace(markers=[SimpleNamespace(topics=topics)])


async def test_a_partition_that_is_gone_needs_no_marker() -> None:
    """The topic was deleted and made anew under its name, with fewer partitions."""
    lines = Lines()
    send = MarkerSender(broker_that_knows(1), cast(BrokerLines, lines))
    async with asyncio.timeout(30):
        assert await send(decided(("t", 0), ("t", 5), ("gone", 0)), 0)
    assert lines.asked == [0]


async def test_a_partition_that_is_merely_missing_gets_its_marker_later() -> None:
    """The controller could not read the topic, which is repaired and led again."""
    lines = Lines()
    broker = broker_that_knows(0, is_whole=False)
    sending = asyncio.create_task(
        MarkerSender(broker, cast(BrokerLines, lines))(decided(("t", 0)), 0)
    )
    async with asyncio.timeout(30):
        await asyncio.wait({sending}, timeout=0.1)
        assert not sending.done()
        broker.metadata = broker_that_knows(1, is_whole=False).metadata
        assert await sending
    assert lines.asked == [0]


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, "t"])
async def test_a_marker_that_cannot_be_committed_is_not_written(topic: str) -> None:
    """It is refused with an error after which coordinators try again, Kafka's too."""
    broker = FakeBroker(partitions=2)
    await broker.lead()
    sick = broker.partitions[0]
    sick.is_under_min_isr = True

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
    assert not sick.batches
    sick.is_under_min_isr = False
    assert set((await write()).values()) == {ErrorCode.none}
    assert len(sick.batches) == 1
    await broker.groups.stop()


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, "t"])
async def test_a_marker_that_is_not_committed_in_time_is_tried_again(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer for the other partitions goes out."""
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


@pytest.mark.parametrize("is_loading", [True, False], ids=["loading", "cannot-be-read"])
async def test_where_the_group_coordinator_cannot_take_a_marker_its_partition_is_not_led(
    is_loading: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Kafka tells it: kafka-transactions tries again then, and gives up at other errors."""
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


async def test_a_partition_whose_log_directory_failed_is_not_known_to_markers() -> None:
    """As Kafka tells it; KAFKA_STORAGE_ERROR would end kafka-transactions."""
    broker = FakeBroker(partitions=1)

    def refuse(topic: str, partition: int) -> Any:
        raise KafkaError(ErrorCode.kafka_storage_error)

    broker.replicas.get_leader = refuse
    assert await errors_of(broker, "t") == {("t", 0): ErrorCode.unknown_topic_or_partition}


async def errors_of(broker: FakeBroker, topic: str) -> dict[tuple[str, int], ErrorCode]:
    """Write a marker to the topic's first partition."""
    return await write_markers(
        cast(BrokerServices, broker),
        [(topic, 0)],
        producer_id=1,
        producer_epoch=0,
        marker=EndMarker(True, 1),
    )


async def test_a_partition_that_is_not_known_here_yet_may_not_join() -> None:
    """It would be taken for one that is gone, and stay without its marker."""
    coordinator = TransactionCoordinator(cast(BrokerServices, broker_that_knows(1)))
    request = AddRequest("x", 1, 0, frozenset({("t", 0), ("t", 1)}))
    with pytest.raises(KafkaError) as refused:
        await coordinator.add_partitions(request)
    assert refused.value.code is ErrorCode.unknown_topic_or_partition


class SilentLine:
    """A connection to another broker that takes requests and answers none."""

    is_closed = False

    def __init__(self) -> None:
        self.sent: list[ApiKey] = []

    def send(self, api: ApiKey, version: int, body: Any) -> asyncio.Future[Any]:
        self.sent.append(api)
        return asyncio.get_running_loop().create_future()

    def abort(self, reason: str) -> None:
        self.is_closed = True


async def test_a_marker_that_waits_holds_up_no_question_about_a_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A connection answers in order, and a marker may wait for replicas for seconds."""
    opened: list[SilentLine] = []

    async def connect(host: str, port: int) -> SilentLine:
        opened.append(SilentLine())
        return opened[-1]

    coordinator = TransactionCoordinator(
        cast(BrokerServices, broker_that_knows(1)), cast(ConnectToPeer, connect)
    )
    monkeypatch.setattr(coordinator._topic, "is_here", lambda _: False)
    monkeypatch.setattr(coordinator._topic, "leader_of", lambda _: LEADER)
    marking = asyncio.ensure_future(coordinator._markers(decided(("t", 0)), 0))
    joining = asyncio.ensure_future(
        coordinator.join(AddRequest("y", 2, 0, frozenset({("t", 0)})), verify_only=True)
    )
    async with asyncio.timeout(30):
        while sum(len(line.sent) for line in opened) < 2:
            await asyncio.sleep(0.01)
    assert sorted(line.sent for line in opened) == sorted(
        [[ApiKey.ADD_PARTITIONS_TO_TXN], [ApiKey.WRITE_TXN_MARKERS]]
    )
    await coordinator.stop()
    assert all(line.is_closed for line in opened)
    for waiting in (marking, joining):
        waiting.cancel()
    await asyncio.gather(marking, joining, return_exceptions=True)
