"""Images reach the other brokers: as differences, and as full images after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from local_cluster.client.connection import RefusedError
from local_cluster.controller.active import publisher
from local_cluster.controller.active.publisher import Publisher
from local_cluster.controller.model.cluster_image import (
    ALL_WELL,
    NO_EPOCH,
    BrokerEndpoints,
    ClusterDelta,
    ClusterImage,
    ReplicaReport,
    TopicState,
)
from local_cluster.controller.model.delta_json import Reply
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.samples import broker, brokers, partition, topic

EVENTUALLY_SECONDS = 5.0
Answer = ErrorCode | Exception


class FakeBroker:
    """Another broker: the deltas that it got, and its responses."""

    def __init__(self) -> None:
        self.got: list[ClusterDelta] = []
        self.opened = 0
        self.is_closed = False
        self.epoch_min = NO_EPOCH
        self.answers: list[Answer] = []
        """The next responses; ErrorCode.none when none is left."""
        self.gate = asyncio.Event()
        self.gate.set()
        self.reachable = True
        self.refuses = False
        self.on_closed: Callable[[], None] = lambda: None
        self.report = ALL_WELL

    async def push(self, delta: ClusterDelta) -> Reply:
        await self.gate.wait()
        self.got.append(delta)
        answer = self.answers.pop(0) if self.answers else ErrorCode.none
        if isinstance(answer, Exception):
            self.is_closed = True
            raise answer
        return Reply(answer, report=self.report, epoch_min=self.epoch_min)

    def abort(self) -> None:
        self.is_closed = True

    def when_closed(self, callback: Callable[[], None]) -> None:
        self.on_closed = callback

    def die(self) -> None:
        """End the process, and its connections with it."""
        self.is_closed = True
        self.refuses = True
        self.on_closed()


class Cluster:
    """A publisher on broker 1, and the other brokers."""

    def __init__(self) -> None:
        self.brokers: dict[int, FakeBroker] = {2: FakeBroker(), 3: FakeBroker()}
        self.here: list[ClusterImage] = []
        self.acknowledged: list[tuple[int, int]] = []
        self.reachable: list[tuple[int, bool]] = []
        self.epochs_required: list[int] = []
        self.reports: dict[int, ReplicaReport] = {}
        """The last report of each broker."""
        self.refuses_here = False
        self.publisher = Publisher(
            broker_id=1,
            listener="PLAINTEXT",
            apply_locally=self.apply_locally,
            acknowledged=self.note,
            reachable_changed=lambda who, is_reachable: self.reachable.append(
                (who.id, is_reachable)
            ),
            epoch_required=self.epochs_required.append,
            open_connection=self.open,
        )

    def apply_locally(self, image: ClusterImage) -> ReplicaReport | None:
        self.here.append(image)
        return None if self.refuses_here else ReplicaReport(frozenset({("here", 0)}))

    def note(self, who: int, what: ClusterImage, report: ReplicaReport) -> None:
        self.acknowledged.append((who, what.sequence))
        self.reports[who] = report

    async def open(self, endpoints: BrokerEndpoints, listener: str) -> FakeBroker:
        assert listener == "PLAINTEXT"
        line = self.brokers[endpoints.id]
        line.opened += 1
        if line.refuses:
            raise RefusedError(ErrorCode.network_exception, "nobody listens")
        if not line.reachable:
            raise KafkaError(ErrorCode.network_exception, "refused")
        line.is_closed = False
        return line


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    yield cluster
    await cluster.publisher.close()


def image(
    sequence: int, *topics: TopicState, live: Mapping[int, BrokerEndpoints] | None = None
) -> ClusterImage:
    shared = LIVE if live is None else live
    return ClusterImage(1, 1, sequence, shared, {t.name: t for t in topics}, {})


LIVE = brokers(1, 2)
A = topic("a", partition(0, 1))
B = topic("b", partition(0, 1))


async def eventually(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(EVENTUALLY_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


async def test_this_broker_has_the_image_on_return(cluster: Cluster) -> None:
    first = image(1, A)
    cluster.publisher.publish(first)
    assert cluster.here == [first]
    assert cluster.acknowledged == [(1, 1)]


async def test_an_image_that_this_broker_refuses_is_not_acknowledged(cluster: Cluster) -> None:
    cluster.refuses_here = True
    cluster.publisher.publish(image(1, A))
    assert await cluster.publisher.wait_acknowledged(1, 1_000)
    assert cluster.acknowledged == [(2, 1)]


async def test_the_own_broker_applies_an_image_again_until_it_succeeds(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "LOCAL_RETRY_MS", 1)
    cluster.refuses_here = True
    cluster.publisher.publish(image(1, A, live=brokers(1)))
    newest = image(2, A, B, live=brokers(1))
    cluster.publisher.publish(newest)
    await eventually(lambda: len(cluster.here) > 4)
    assert cluster.here[1:] == [newest] * (len(cluster.here) - 1)
    cluster.refuses_here = False
    await eventually(lambda: cluster.acknowledged)
    told = len(cluster.here)
    await asyncio.sleep(0.01)
    assert (len(cluster.here), cluster.acknowledged) == (told, [(1, 2)]), "and not again"


async def test_every_broker_reports_its_offline_replicas(cluster: Cluster) -> None:
    ill = ReplicaReport(frozenset({("a", 0)}), frozenset({A.topic_id}))
    cluster.brokers[2].report = ill
    cluster.publisher.publish(image(1, A))
    await eventually(lambda: 2 in cluster.reports)
    assert cluster.reports == {1: ReplicaReport(frozenset({("here", 0)})), 2: ill}


async def test_first_a_full_image_then_differences(cluster: Cluster) -> None:
    two = cluster.brokers[2]
    cluster.publisher.publish(image(1, A))
    assert await cluster.publisher.wait_acknowledged(1, 1_000)
    cluster.publisher.publish(image(2, A, B))
    assert await cluster.publisher.wait_acknowledged(2, 1_000)
    assert [delta.full for delta in two.got] == [True, False]
    assert (two.got[1].base_sequence, two.got[1].topics) == (1, {"b": B})
    assert two.got[0].broker_epoch == LIVE[2].broker_epoch
    assert two.opened == 1
    assert (2, 2) in cluster.acknowledged


async def test_a_slow_broker_skips_images(cluster: Cluster) -> None:
    two = cluster.brokers[2]
    cluster.publisher.publish(image(1, A))
    assert await cluster.publisher.wait_acknowledged(1, 1_000)
    two.gate.clear()
    for sequence in range(2, 10):
        cluster.publisher.publish(image(sequence, A, B) if sequence % 2 else image(sequence, A))
        await asyncio.sleep(0)
    two.gate.set()
    assert await cluster.publisher.wait_acknowledged(9, 1_000)
    assert two.got[-1].sequence == 9
    assert len(two.got) <= 3


@pytest.mark.parametrize(
    "trouble",
    [
        ErrorCode.invalid_update_version,
        ErrorCode.stale_broker_epoch,
        KafkaError(ErrorCode.network_exception, "cut"),
        RuntimeError("a defect"),
    ],
)
async def test_a_full_image_follows_any_failure(cluster: Cluster, trouble: Answer) -> None:
    two = cluster.brokers[2]
    cluster.publisher.publish(image(1, A))
    assert await cluster.publisher.wait_acknowledged(1, 1_000)
    two.answers = [trouble]
    cluster.publisher.publish(image(2, A, B))
    await eventually(lambda: (2, 2) in cluster.acknowledged)
    assert [delta.full for delta in two.got] == [True, False, True]
    assert two.got[-1].topics == {"a": A, "b": B}


async def test_a_refusal_names_the_epoch_that_the_broker_accepts(
    cluster: Cluster,
) -> None:
    two = cluster.brokers[2]
    two.epoch_min = 4
    two.answers = [ErrorCode.stale_controller_epoch]
    cluster.publisher.publish(image(1, A))
    await eventually(lambda: (2, 1) in cluster.acknowledged)
    assert cluster.epochs_required == [4], "once: it accepted the next one"


async def test_a_connection_that_died_between_two_images(cluster: Cluster) -> None:
    two = cluster.brokers[2]
    cluster.publisher.publish(image(1, A))
    assert await cluster.publisher.wait_acknowledged(1, 1_000)
    two.is_closed = True  # the broker was restarted
    cluster.publisher.publish(image(2, A, B))
    assert await cluster.publisher.wait_acknowledged(2, 1_000)
    assert two.got[-1].full


async def test_a_broker_out_of_reach_is_not_waited_for(cluster: Cluster) -> None:
    two = cluster.brokers[2]
    two.reachable = False
    cluster.publisher.publish(image(1, A))
    assert await cluster.publisher.wait_acknowledged(1, 5_000)
    assert (2, 1) not in cluster.acknowledged
    two.reachable = True
    await eventually(lambda: (2, 1) in cluster.acknowledged)


async def test_a_dead_process_is_reported_and_its_return_too(
    cluster: Cluster,
) -> None:
    two = cluster.brokers[2]
    cluster.publisher.publish(image(1, A))
    assert await cluster.publisher.wait_acknowledged(1, 1_000)
    two.die()
    await eventually(lambda: cluster.reachable == [(2, False)])
    opened = two.opened
    await eventually(lambda: two.opened > opened + 1)
    assert cluster.reachable == [(2, False)], "once"
    two.refuses = False
    await eventually(lambda: cluster.reachable == [(2, False), (2, True)])
    assert two.got[-1].full


async def test_a_broken_connection_is_opened_again_without_a_report(cluster: Cluster) -> None:
    two = cluster.brokers[2]
    cluster.publisher.publish(image(1, A))
    assert await cluster.publisher.wait_acknowledged(1, 1_000)
    two.is_closed = True
    two.on_closed()
    await eventually(lambda: two.opened == 2)
    two.reachable = False
    two.is_closed = True
    two.on_closed()
    await eventually(lambda: two.opened > 3)
    assert cluster.reachable == [], "an unreachable broker is not a dead one"


async def test_a_broker_that_is_not_up_yet_is_not_gone(cluster: Cluster) -> None:
    two = cluster.brokers[2]
    two.refuses = True
    cluster.publisher.publish(image(1, A))
    await eventually(lambda: two.opened > 2)
    two.refuses = False
    await eventually(lambda: (2, 1) in cluster.acknowledged)
    assert cluster.reachable == []


async def test_waiting_for_a_slow_broker_times_out(cluster: Cluster) -> None:
    cluster.brokers[2].gate.clear()
    cluster.publisher.publish(image(1, A))
    assert not await cluster.publisher.wait_acknowledged(1, 10)


async def test_a_broker_that_registered_again_gets_its_new_epoch(cluster: Cluster) -> None:
    two = cluster.brokers[2]
    cluster.publisher.publish(image(1, A))
    assert await cluster.publisher.wait_acknowledged(1, 1_000)
    again = {1: broker(1), 2: broker(2, epoch=999)}
    cluster.publisher.publish(image(2, A, live=again))
    assert await cluster.publisher.wait_acknowledged(2, 1_000)
    assert (two.got[-1].full, two.got[-1].broker_epoch) == (True, 999)


async def test_a_broker_that_left_gets_no_image(cluster: Cluster) -> None:
    cluster.publisher.publish(image(1, A, live=brokers(1, 2, 3)))
    assert await cluster.publisher.wait_acknowledged(1, 1_000)
    cluster.publisher.publish(image(2, B, live=brokers(1, 3)))
    assert await cluster.publisher.wait_acknowledged(2, 1_000)
    assert [delta.sequence for delta in cluster.brokers[2].got] == [1]
    assert cluster.brokers[3].got[-1].brokers == {2: None}


async def test_no_image_is_sent_after_close(cluster: Cluster) -> None:
    two = cluster.brokers[2]
    two.gate.clear()
    cluster.publisher.publish(image(1, A))
    await asyncio.sleep(0)
    await cluster.publisher.close()
    two.gate.set()
    await asyncio.sleep(0.01)
    assert two.got == []
    assert (2, 1) not in cluster.acknowledged


async def test_publish_does_nothing_after_close(cluster: Cluster) -> None:
    await cluster.publisher.close()
    cluster.publisher.publish(image(1, A))
    assert cluster.here == []
    assert await cluster.publisher.wait_acknowledged(1, 1_000), "no broker to wait for"
