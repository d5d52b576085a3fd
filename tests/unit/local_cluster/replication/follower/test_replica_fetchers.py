"""A follower whose partitions lie on disks of their own: one in trouble stops only itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from local_cluster.clock import SystemClock
from local_cluster.controller.model.cluster_image import BrokerEndpoints, ClusterImage, difference
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.disk.disk_health import DiskState
from local_cluster.log.disk.disk_work import Deletion
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.replication.follower import leader_fetches
from local_cluster.replication.follower.follower_request import encode_follower_request
from local_cluster.replication.follower.replica_fetchers import ReplicaFetchers
from local_cluster.replication.partition import Partition
from local_cluster.replication.partition_flushes import PartitionFlushes
from local_cluster.replication.throttle import ReplicationThrottle, ThrottledSide
from local_cluster.settings import BrokerSettings, Listener
from local_cluster.wire import fetch as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.broker.sim_disk import SimDisk
from tests.unit.local_cluster.log.samples import NOW_MS, TOPIC_ID, append, batch, flush

FOLLOWER, LEADER = 1, 2
EPOCH = 1
WAIT_SECONDS_MAX = 60.0
SICK, WELL = 0, 1
"""The partitions: the first one's disk is in trouble."""


def new_log(disk: SimDisk, index: int, state: DiskState | None = None) -> PartitionLog:
    return PartitionLog.create(
        disk, f"/t-{index}", "t", index, LogConfig(), now_ms=NOW_MS, topic_id=TOPIC_ID, disk=state
    )


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while not condition():
            await asyncio.sleep(0.001)


class Leader:
    """Broker 2: answers as soon as it has news of anything that was asked for."""

    is_closed = False

    def __init__(self) -> None:
        disk = SimDisk()
        self.logs = {index: new_log(disk, index) for index in (SICK, WELL)}
        self.asked: Counter[int] = Counter()
        self._news = asyncio.Event()
        self._waiting: asyncio.Future[tuple[memoryview, int]] | None = None

    def write(self, *indexes: int, epoch: int = 0) -> None:
        for index in indexes:
            append(self.logs[index], batch(1), epoch=epoch)
        self._news.set()

    def send(
        self, api: ApiKey, version: int, body: tuple[bytes, ...]
    ) -> asyncio.Future[tuple[memoryview, int]]:
        assert api is ApiKey.FETCH
        waiting: asyncio.Future[tuple[memoryview, int]] = asyncio.Future()

        def answered(serving: asyncio.Task[tuple[memoryview, int]]) -> None:
            if not waiting.done() and not serving.cancelled():
                waiting.set_result(serving.result())

        self._serving = asyncio.create_task(self._serve(version, body))
        self._serving.add_done_callback(answered)
        self._waiting = waiting
        return waiting

    async def _serve(self, version: int, body: tuple[bytes, ...]) -> tuple[memoryview, int]:
        request = codec.decode_request(version, memoryview(b"".join(body)), 0)
        self.asked.update(each.partition for each in request.partitions)
        answers: list[codec.PartitionFetched] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(request.wait_ms_max / 1000):
                while not answers:
                    self._news.clear()
                    found = map(self._answer, request.partitions)
                    answers = [each for each in found if each is not None]
                    if not answers:
                        await self._news.wait()
        parts = codec.encode_response(version, answers)
        return memoryview(b"".join(bytes(part) for part in parts)), 0  # type: ignore[arg-type]

    def _answer(self, asked: codec.FetchPartition) -> codec.PartitionFetched | None:
        log = self.logs[asked.partition]
        end_offset = log.log_end_offset
        answer = codec.PartitionFetched(
            "", asked.partition, 0, end_offset, end_offset, 0, topic_id=TOPIC_ID
        )
        if asked.fetch_offset > end_offset:
            return answer._replace(diverging_epoch=(asked.last_fetched_epoch, end_offset))
        if asked.fetch_offset == end_offset:
            return None
        piece = log.reader.read(
            asked.fetch_offset,
            bytes_max=1 << 20,
            offset_limit=end_offset,
            at_least_one_batch=True,
        )
        return answer._replace(records=piece.read())

    def abort(self, reason: str) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(KafkaError(ErrorCode.network_exception, reason))

    def when_closed(self, callback: Callable[[], None]) -> None:
        return


class Follower:
    """Broker 1, with a disk for each of its two partitions."""

    def __init__(self, leader: Leader, *, flushers: dict[int, Any] | None = None) -> None:
        self.leader = leader
        self.disks = {index: SimDisk() for index in (SICK, WELL)}
        self.states = {index: DiskState(f"disk {index}") for index in (SICK, WELL)}
        self.cut_may_end = asyncio.Event()
        self.cut_may_end.set()
        self.partitions = {
            index: Partition(
                "t",
                index,
                TOPIC_ID,
                new_log(self.disks[index], index, self.states[index]),
                flusher=(flushers or {}).get(index),
                now_ms=lambda: NOW_MS,
                high_watermark=0,
            )
            for index in (SICK, WELL)
        }
        metadata = MetadataCache()
        live = {n: BrokerEndpoints(n, None, {"P": ("h", n)}) for n in (FOLLOWER, LEADER)}
        metadata.apply(difference(None, ClusterImage(LEADER, 1, 1, live, {}, {}), -1))

        self.connections = 0
        self.may_connect = asyncio.Event()
        self.may_connect.set()

        async def open_line(host: str, port: int) -> Leader:
            self.connections += 1
            await self.may_connect.wait()
            return leader

        self.fetchers = ReplicaFetchers(
            BrokerSettings(
                cluster="c",
                broker_id=FOLLOWER,
                listeners=(Listener(name="P", host="h", port=1),),
                inter_broker_listener="P",
                zookeeper_connect="unused",
                log_dirs=("unused",),
                ready_file="unused",
                config={"replica.fetch.backoff.ms": "5", "replica.fetch.wait.max.ms": "20"},
            ),
            metadata,
            SystemClock(),
            throttle=ReplicationThrottle(FOLLOWER, {}, lambda: 0),
            after_cut=self._after_cut,
            open_line=open_line,
        )

    async def _after_cut(self, partition: Partition, deletion: Deletion) -> None:
        if partition.partition == SICK:
            await self.cut_may_end.wait()

    def follow(self) -> None:
        for partition in self.partitions.values():
            partition.resign(EPOCH, LEADER)
            self.fetchers.follow(partition)

    def end(self, index: int) -> int:
        return self.partitions[index].log.log_end_offset

    async def has_all(self, index: int) -> None:
        await until(lambda: self.end(index) == self.leader.logs[index].log_end_offset)

    async def goes_on(self, index: int, rounds: int = 20) -> None:
        """Everything is written to both partitions, and comes here for this one."""
        for _ in range(rounds):
            self.leader.write(SICK, WELL)
            await self.has_all(index)


def said(caplog: pytest.LogCaptureFixture, what: str) -> list[str]:
    return [each.getMessage() for each in caplog.records if what in each.getMessage()]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_fetches, "SETTLE_MS_MAX", 20)
    monkeypatch.setattr(leader_fetches, "DEFECT_DELAY_MS_MIN", 1)
    monkeypatch.setattr(leader_fetches, "DEFECT_DELAY_MS_MAX", 4)


async def test_a_full_disk_stops_its_own_partition_and_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    leader = Leader()
    follower = Follower(leader)
    follower.follow()
    await follower.goes_on(SICK, 1)
    follower.disks[SICK].is_full = True
    await follower.goes_on(WELL)
    before = leader.asked[SICK]
    await until(lambda: leader.asked[SICK] > before + 3)
    await follower.goes_on(WELL)
    assert follower.end(SICK) == 1
    assert len(said(caplog, "t-0 cannot be followed")) == 1
    assert said(caplog, "t-1 cannot") == []
    follower.disks[SICK].is_full = False
    follower.states[SICK].freed()
    await follower.has_all(SICK)
    assert len(said(caplog, "t-0 is followed again, after")) == 1
    await follower.fetchers.stop()


async def test_a_log_that_is_over_is_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    leader = Leader()
    follower = Follower(leader)
    follower.follow()
    await follower.goes_on(SICK, 1)
    follower.partitions[SICK].log.state.fail("its directory failed")
    await follower.goes_on(WELL)
    before = leader.asked[SICK]
    await follower.goes_on(WELL)
    assert leader.asked[SICK] == before
    assert len(said(caplog, "t-0 cannot be followed")) == 1
    await follower.fetchers.stop()


async def test_a_fault_in_one_partition_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    leader = Leader()
    follower = Follower(leader)
    follower.follow()
    await follower.goes_on(SICK, 1)

    def raise_it(*_: Any) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(follower.partitions[SICK], "append_fetched", raise_it)
    await follower.goes_on(WELL)
    assert len(said(caplog, "t-0 is not followed until the controller says more")) == 1
    await follower.fetchers.stop()


class Faults:
    """In the place of a function: raises so often, and then does what it did."""

    def __init__(self, count: int, function: Callable[..., Any]) -> None:
        self.count = count
        self._function = function

    def __call__(self, *args: Any) -> Any:
        if self.count:
            self.count -= 1
            raise RuntimeError("a fault of ours")
        return self._function(*args)


async def test_a_fault_that_nobody_foresaw_ends_no_fetching(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    leader = Leader()
    follower = Follower(leader)
    follower.follow()
    await follower.goes_on(WELL, 1)
    faults = Faults(4, encode_follower_request)
    monkeypatch.setattr(leader_fetches, "encode_follower_request", faults)
    await follower.goes_on(WELL)
    await follower.has_all(SICK)
    assert faults.count == 0
    # The delay doubles, up to a limit; what went well begins it anew.
    delays = [f"failed, and is tried again in {delay_ms} ms" for delay_ms in (1, 2, 4, 4)]
    failures = said(caplog, "fetching from broker 2 failed")
    assert [each.removeprefix("fetching from broker 2 ") for each in failures] == delays
    assert len(said(caplog, "broker 2 is fetched from again")) == 1
    assert [each for each in caplog.records if each.exc_info], "with where it came from"
    await follower.fetchers.stop()


async def test_a_fault_after_a_truncation_lets_nothing_be_appended_before_that_is_on_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leader = Leader()
    leader.write(SICK, WELL)
    follower = Follower(leader)
    for _ in range(3):
        append(follower.partitions[SICK].log, batch(1))
    follower.cut_may_end.clear()
    # The other one's answer stands behind, and is taken when the cut has begun.
    faults = Faults(1, lambda *_: None)
    monkeypatch.setattr(ThrottledSide, "record", faults)
    follower.follow()
    await until(lambda: faults.count == 0)
    await follower.goes_on(WELL)
    assert follower.end(SICK) == 1
    follower.cut_may_end.set()
    await follower.has_all(SICK)
    await follower.fetchers.stop()


async def test_a_truncation_on_a_full_disk_holds_up_no_other_partition() -> None:
    leader = Leader()
    leader.write(SICK, WELL)
    follower = Follower(leader)
    for _ in range(3):
        append(follower.partitions[SICK].log, batch(1))
    follower.cut_may_end.clear()
    follower.follow()
    await until(lambda: follower.end(SICK) == 1)
    await follower.goes_on(WELL)
    assert follower.end(SICK) == 1, "cut, and nothing is appended before the cut is on the disk"
    follower.cut_may_end.set()
    await follower.has_all(SICK)
    await follower.fetchers.stop()


class Flusher:
    """A disk that flushes at once, or not at all."""

    def __init__(self) -> None:
        self.is_stuck = False
        self.waiting: list[PartitionFlushes] = []

    def request(self, partition: PartitionFlushes) -> None:
        if self.is_stuck:
            self.waiting.append(partition)
            return
        if partition.log.flusher.needs_flush:
            flush(partition.log)
            asyncio.get_running_loop().call_soon(partition.flushed)

    def go_on(self) -> None:
        self.is_stuck = False
        waiting, self.waiting = self.waiting, []
        for partition in waiting:
            self.request(partition)


async def test_a_disk_that_does_not_flush_holds_up_no_other_partition() -> None:
    leader = Leader()
    flushers = {SICK: Flusher(), WELL: Flusher()}
    follower = Follower(leader, flushers=flushers)
    follower.follow()
    await follower.goes_on(SICK, 1)
    flushers[SICK].is_stuck = True
    await follower.goes_on(WELL)
    asked = leader.asked[SICK]
    await follower.goes_on(WELL)
    assert leader.asked[SICK] == asked, "its leader would count what is not on the disk"
    flushers[SICK].go_on()
    await follower.has_all(SICK)
    await follower.fetchers.stop()


@pytest.mark.parametrize("is_over", [True, False])
async def test_a_flush_that_fails_holds_up_no_other_partition(
    is_over: bool, caplog: pytest.LogCaptureFixture
) -> None:
    leader = Leader()
    flushers = {SICK: Flusher(), WELL: Flusher()}
    follower = Follower(leader, flushers=flushers)
    follower.follow()
    await follower.goes_on(SICK, 1)
    sick = follower.partitions[SICK]
    asked_to_flush = 0

    def fail_it(partition: PartitionFlushes) -> None:
        nonlocal asked_to_flush
        asked_to_flush += 1
        if is_over:
            partition.log.state.fail("its directory failed")
        partition.fail_parked(ErrorCode.kafka_storage_error)

    flushers[SICK].request = fail_it  # type: ignore[method-assign]
    await follower.goes_on(WELL)
    assert len(said(caplog, "t-0 has no disk: kafka_storage_error")) == 1
    # Not in every round, but after a delay that doubles; a log that is over not at all.
    assert asked_to_flush < (5 if is_over else 20)
    assert sick.log.log_end_offset == 2, "what could not be flushed is not fetched behind"
    await follower.fetchers.stop()


async def test_what_waits_for_its_disk_waits_with_the_next_leader_too() -> None:
    leader = Leader()
    leader.write(SICK, WELL)
    follower = Follower(leader)
    for _ in range(3):
        append(follower.partitions[SICK].log, batch(1))
    follower.cut_may_end.clear()
    follower.follow()
    await until(lambda: follower.end(SICK) == 1)
    await follower.goes_on(WELL)
    sick = follower.partitions[SICK]
    follower.fetchers.leave(sick)
    sick.resign(EPOCH + 1, LEADER)
    follower.fetchers.follow(sick)
    await follower.goes_on(WELL)
    assert follower.end(SICK) == 1
    follower.cut_may_end.set()
    await follower.has_all(SICK)
    await follower.fetchers.stop()


async def test_what_is_given_up_while_the_connection_is_opened_is_not_asked_for() -> None:
    """Named then, it would stay so, and its refusal be told again and again."""
    leader = Leader()
    follower = Follower(leader)
    follower.may_connect.clear()
    follower.follow()
    await until(lambda: follower.connections)
    given_up = follower.partitions[SICK]
    given_up.resign(EPOCH + 1, LEADER + 1)
    follower.fetchers.follow(given_up)
    follower.may_connect.set()
    for _ in range(20):
        leader.write(WELL)
        await follower.has_all(WELL)
    assert leader.asked[SICK] == 0
    await follower.fetchers.stop()
