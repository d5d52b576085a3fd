"""A follower whose partitions lie on two disks: a failure stops only its own partition."""

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
from local_cluster.replication.follower.followed_replicas import FollowedReplicas
from local_cluster.replication.follower.replica_fetcher import FetchDelays
from local_cluster.replication.log_flushes import LogFlushes
from local_cluster.replication.partition import Partition
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
DELAYS = FetchDelays(error_backoff_ms_min=1, error_backoff_ms_max=4, disk_wait_ms_max=20)
SICK, WELL = 0, 1
"""The partitions. The disk of the first one fails."""


def new_log(disk: SimDisk, index: int, state: DiskState | None = None) -> PartitionLog:
    return PartitionLog.create(
        disk, f"/t-{index}", "t", index, LogConfig(), now_ms=NOW_MS, topic_id=TOPIC_ID, disk=state
    )


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while not condition():
            await asyncio.sleep(0.001)


class Leader:
    """Broker 2: responds as soon as a requested partition has changed."""

    is_closed = False

    def __init__(self) -> None:
        disk = SimDisk()
        self.logs = {index: new_log(disk, index) for index in (SICK, WELL)}
        self.requested: Counter[int] = Counter()
        self.defects = 0
        """How many of the next requests raise an unexpected error."""
        self._changed = asyncio.Event()
        self._waiting: asyncio.Future[tuple[memoryview, int]] | None = None

    def write(self, *indexes: int, epoch: int = 0) -> None:
        for index in indexes:
            append(self.logs[index], batch(1), epoch=epoch)
        self._changed.set()

    def send(
        self, api: ApiKey, version: int, body: tuple[bytes, ...]
    ) -> asyncio.Future[tuple[memoryview, int]]:
        assert api is ApiKey.FETCH
        if self.defects:
            self.defects -= 1
            raise RuntimeError("a fault of ours")
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
        self.requested.update(each.partition for each in request.partitions)
        responses: list[codec.PartitionFetchResponse] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(request.wait_ms_max / 1000):
                while not responses:
                    self._changed.clear()
                    found = map(self._respond, request.partitions)
                    responses = [each for each in found if each is not None]
                    if not responses:
                        await self._changed.wait()
        parts = codec.encode_response(version, responses)
        return memoryview(b"".join(bytes(part) for part in parts)), 0  # type: ignore[arg-type]

    def _respond(self, requested: codec.FetchPartition) -> codec.PartitionFetchResponse | None:
        log = self.logs[requested.partition]
        end_offset = log.log_end_offset
        response = codec.PartitionFetchResponse(
            "", requested.partition, 0, end_offset, end_offset, 0, topic_id=TOPIC_ID
        )
        if requested.fetch_offset > end_offset:
            return response._replace(diverging_epoch=(requested.last_fetched_epoch, end_offset))
        if requested.fetch_offset == end_offset:
            return None
        piece = log.reader.read(
            requested.fetch_offset,
            bytes_max=1 << 20,
            offset_limit=end_offset,
            at_least_one_batch=True,
        )
        return response._replace(records=piece.read())

    def abort(self, reason: str) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(KafkaError(ErrorCode.network_exception, reason))

    def when_closed(self, callback: Callable[[], None]) -> None:
        return


class Flusher:
    """A disk that flushes at once, or not at all."""

    def __init__(self) -> None:
        self.is_stuck = False
        self.waiting: list[LogFlushes] = []

    def request(self, flushes: LogFlushes) -> None:
        if self.is_stuck:
            self.waiting.append(flushes)
            return
        if flushes.log.flusher.needs_flush:
            flush(flushes.log)
            asyncio.get_running_loop().call_soon(flushes.flushed)

    def resume(self) -> None:
        self.is_stuck = False
        waiting, self.waiting = self.waiting, []
        for flushes in waiting:
            self.request(flushes)


class FailingFlusher(Flusher):
    """A disk that fails every flush once `is_failing` is set, and perhaps its log."""

    def __init__(self, *, fails_log: bool) -> None:
        super().__init__()
        self.is_failing = False
        self.requests = 0
        self._fails_log = fails_log

    def request(self, flushes: LogFlushes) -> None:
        if not self.is_failing:
            super().request(flushes)
            return
        self.requests += 1
        if self._fails_log:
            flushes.log.state.fail("its directory failed")
        flushes.fail(ErrorCode.kafka_storage_error)


class Follower:
    """Broker 1, with a disk for each of its two partitions."""

    def __init__(self, leader: Leader, *, flushers: dict[int, Flusher] | None = None) -> None:
        self.leader = leader
        self.disks = {index: SimDisk() for index in (SICK, WELL)}
        self.states = {index: DiskState(f"disk {index}") for index in (SICK, WELL)}
        self.truncation_may_end = asyncio.Event()
        self.truncation_may_end.set()
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

        async def connect(host: str, port: int) -> Leader:
            self.connections += 1
            await self.may_connect.wait()
            return leader

        self.fetchers = FollowedReplicas(
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
            after_truncation=self._after_truncation,
            connect=connect,
            delays=DELAYS,
        )

    async def _after_truncation(self, partition: Partition, deletion: Deletion) -> None:
        if partition.partition == SICK:
            await self.truncation_may_end.wait()

    def follow(self) -> None:
        for partition in self.partitions.values():
            partition.resign(EPOCH, LEADER)
            self.fetchers.follow(partition)

    def end(self, index: int) -> int:
        return self.partitions[index].log.log_end_offset

    async def has_all(self, index: int) -> None:
        await until(lambda: self.end(index) == self.leader.logs[index].log_end_offset)

    async def continues(self, index: int, rounds: int = 20) -> None:
        """Write to both partitions, and wait for the records of this one."""
        for _ in range(rounds):
            self.leader.write(SICK, WELL)
            await self.has_all(index)


def logged(caplog: pytest.LogCaptureFixture, what: str) -> list[str]:
    return [each.getMessage() for each in caplog.records if what in each.getMessage()]


async def test_a_full_disk_stops_only_its_own_partition_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    leader = Leader()
    follower = Follower(leader)
    follower.follow()
    await follower.continues(SICK, 1)
    follower.disks[SICK].is_full = True
    await follower.continues(WELL)
    before = leader.requested[SICK]
    await until(lambda: leader.requested[SICK] > before + 3)
    await follower.continues(WELL)
    assert follower.end(SICK) == 1
    assert len(logged(caplog, "t-0 cannot be followed")) == 1
    assert logged(caplog, "t-1 cannot") == []
    follower.disks[SICK].is_full = False
    follower.states[SICK].freed()
    await follower.has_all(SICK)
    assert len(logged(caplog, "t-0 is followed again, after")) == 1
    await follower.fetchers.stop()


async def test_a_failed_log_is_not_retried(caplog: pytest.LogCaptureFixture) -> None:
    leader = Leader()
    follower = Follower(leader)
    follower.follow()
    await follower.continues(SICK, 1)
    follower.partitions[SICK].log.state.fail("its directory failed")
    await follower.continues(WELL)
    before = leader.requested[SICK]
    await follower.continues(WELL)
    assert leader.requested[SICK] == before
    assert len(logged(caplog, "t-0 cannot be followed")) == 1
    await follower.fetchers.stop()


async def test_a_defect_in_one_partition_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    leader = Leader()
    follower = Follower(leader)
    follower.follow()
    await follower.continues(SICK, 1)

    def raise_it(*_: Any) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(follower.partitions[SICK].flushes, "request", raise_it)
    await follower.continues(WELL)
    assert len(logged(caplog, "t-0 is not followed before its next leader epoch")) == 1
    await follower.fetchers.stop()


class Faults:
    """Replaces a function: raises so many times, and then calls it."""

    def __init__(self, count: int, function: Callable[..., Any]) -> None:
        self.count = count
        self._function = function

    def __call__(self, *args: Any) -> Any:
        if self.count:
            self.count -= 1
            raise RuntimeError("a fault of ours")
        return self._function(*args)


async def test_an_unexpected_error_ends_no_fetching(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    leader = Leader()
    follower = Follower(leader)
    follower.follow()
    await follower.continues(WELL, 1)
    leader.defects = 4
    await follower.continues(WELL)
    await follower.has_all(SICK)
    assert leader.defects == 0
    # The delay doubles up to its maximum.
    delays = [f"failed and is retried in {delay_ms} ms" for delay_ms in (1, 2, 4, 4)]
    failures = logged(caplog, "fetching from broker 2 failed")
    assert [each.removeprefix("fetching from broker 2 ") for each in failures] == delays
    assert len(logged(caplog, "broker 2 is fetched from again")) == 1
    assert [each for each in caplog.records if each.exc_info], "with its traceback"
    await follower.fetchers.stop()


async def test_after_a_defect_nothing_is_appended_before_the_end_of_a_truncation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leader = Leader()
    leader.write(SICK, WELL)
    follower = Follower(leader)
    for _ in range(3):
        append(follower.partitions[SICK].log, batch(1))
    follower.truncation_may_end.clear()
    # The response of the other partition comes after it, when the truncation has begun.
    faults = Faults(1, lambda *_: None)
    monkeypatch.setattr(ThrottledSide, "record", faults)
    follower.follow()
    await until(lambda: faults.count == 0)
    await follower.continues(WELL)
    assert follower.end(SICK) == 1
    follower.truncation_may_end.set()
    await follower.has_all(SICK)
    await follower.fetchers.stop()


async def test_a_truncation_on_a_full_disk_delays_no_other_partition() -> None:
    leader = Leader()
    leader.write(SICK, WELL)
    follower = Follower(leader)
    for _ in range(3):
        append(follower.partitions[SICK].log, batch(1))
    follower.truncation_may_end.clear()
    follower.follow()
    await until(lambda: follower.end(SICK) == 1)
    await follower.continues(WELL)
    assert follower.end(SICK) == 1, "truncated, and nothing is appended before that is on the disk"
    follower.truncation_may_end.set()
    await follower.has_all(SICK)
    await follower.fetchers.stop()


async def test_a_disk_that_does_not_flush_delays_no_other_partition() -> None:
    leader = Leader()
    flushers = {SICK: Flusher(), WELL: Flusher()}
    follower = Follower(leader, flushers=flushers)
    follower.follow()
    await follower.continues(SICK, 1)
    flushers[SICK].is_stuck = True
    await follower.continues(WELL)
    requested = leader.requested[SICK]
    await follower.continues(WELL)
    assert leader.requested[SICK] == requested, "its leader would count unflushed records"
    flushers[SICK].resume()
    await follower.has_all(SICK)
    await follower.fetchers.stop()


@pytest.mark.parametrize("fails_log", [True, False])
async def test_a_flush_that_fails_delays_no_other_partition(
    fails_log: bool, caplog: pytest.LogCaptureFixture
) -> None:
    leader = Leader()
    failing = FailingFlusher(fails_log=fails_log)
    follower = Follower(leader, flushers={SICK: failing, WELL: Flusher()})
    follower.follow()
    await follower.continues(SICK, 1)
    sick = follower.partitions[SICK]
    failing.is_failing = True
    await follower.continues(WELL)
    assert len(logged(caplog, "t-0 cannot be flushed: kafka_storage_error")) == 1
    # Not in every round, but after a delay that doubles. A failed log is not retried at all.
    assert failing.requests < (5 if fails_log else 20)
    assert sick.log.log_end_offset == 2, "nothing is fetched after what could not be flushed"
    await follower.fetchers.stop()


async def test_a_replica_that_waits_for_its_disk_waits_with_the_next_leader_too() -> None:
    leader = Leader()
    leader.write(SICK, WELL)
    follower = Follower(leader)
    for _ in range(3):
        append(follower.partitions[SICK].log, batch(1))
    follower.truncation_may_end.clear()
    follower.follow()
    await until(lambda: follower.end(SICK) == 1)
    await follower.continues(WELL)
    sick = follower.partitions[SICK]
    follower.fetchers.unfollow(sick)
    sick.resign(EPOCH + 1, LEADER)
    follower.fetchers.follow(sick)
    await follower.continues(WELL)
    assert follower.end(SICK) == 1
    follower.truncation_may_end.set()
    await follower.has_all(SICK)
    await follower.fetchers.stop()


async def test_a_replica_that_is_unfollowed_during_the_connect_is_not_fetched() -> None:
    """Named then it would stay named, and each response would refuse it again."""
    leader = Leader()
    follower = Follower(leader)
    follower.may_connect.clear()
    follower.follow()
    await until(lambda: follower.connections)
    unfollowed = follower.partitions[SICK]
    unfollowed.resign(EPOCH + 1, LEADER + 1)
    follower.fetchers.follow(unfollowed)
    follower.may_connect.set()
    for _ in range(20):
        leader.write(WELL)
        await follower.has_all(WELL)
    assert leader.requested[SICK] == 0
    await follower.fetchers.stop()
