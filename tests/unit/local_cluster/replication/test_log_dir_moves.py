"""Replicas that move between log directories while they are written, without a network."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from local_cluster.clock import SystemClock
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.partition.batch_checks import check_produced
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.segment.segment_list import SegmentList
from local_cluster.log.state.snapshot_files import ProducerSnapshots
from local_cluster.replication.log_dir_moves import CHUNK_BYTES, LogDirMoves
from local_cluster.replication.partition import Partition
from local_cluster.server.flushing.group_commit import GroupCommit
from tests.unit.local_cluster.log.samples import NOW_MS, TOPIC_ID, batch, read_all

WAIT_SECONDS_MAX = 60.0
PRODUCER_ID = 7


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while not condition():
            await asyncio.sleep(0.001)


class Broker:
    """Log directories a and b, a flusher for each, and the leading replica t-0 in a."""

    def __init__(self, root: Path, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.failed: list[BaseException] = []
        self.directories = LogStore(
            [root / "a", root / "b"],
            OsFiles(),
            broker_id=1,
            clock=SystemClock(),
            on_failed=lambda _, error: self.failed.append(error),
        )
        self.directories.open(cluster_id="c")
        self.a, self.b = self.directories.all
        self.flushers = {
            each: GroupCommit(each.path, self.failed.append) for each in (self.a, self.b)
        }
        for flusher in self.flushers.values():
            flusher.start()
        self.metadata = MetadataCache()
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.moves = LogDirMoves(
            1,
            self.directories,
            self,
            self.metadata,
            SystemClock(),
            flusher_of=self.flushers.get,
            checkpoint=self._checkpoint,
            chunk_bytes=chunk_bytes,
        )
        self.acknowledged = 0

    def add(self) -> Partition:
        log = self.directories.get_or_create("t", TOPIC_ID, 0, LogConfig(segment_bytes=20_000))
        home = self.directories.of("t", 0)
        assert home is not None
        partition = Partition(
            "t",
            0,
            TOPIC_ID,
            log,
            flusher=self.flushers[home],
            now_ms=lambda: NOW_MS,
            high_watermark=0,
        )
        partition.become_leader(1)
        self.partitions["t", 0] = partition
        return partition

    def get(self, topic: str, partition: int) -> Partition | None:
        return self.partitions.get((topic, partition))

    async def _checkpoint(self, directory: LogDirectory) -> None:
        directory.checkpoint({})

    async def write(self, partition: Partition, count: int) -> None:
        """Write records, each after the acknowledgement of the one before it."""
        for _ in range(count):
            buffer = batch(1, value=b"%d" % self.acknowledged + b"x" * 500)
            headers = check_produced(buffer, batches_max=1, allow_transactional=True)
            result = partition.append(buffer, headers)
            await partition.committed(result.last_offset + 1)
            self.acknowledged += 1

    def is_moved(self) -> bool:
        return self.directories.of("t", 0) is self.b

    async def stop(self) -> None:
        await self.moves.stop()
        for flusher in self.flushers.values():
            await flusher.stop()
        for directory in self.directories.all:
            directory.close(clean=False)
        assert self.failed == []


@pytest.fixture
async def broker(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Broker]:
    """`chunk_bytes` may be given by an indirect parameter."""
    broker = Broker(tmp_path, chunk_bytes=getattr(request, "param", CHUNK_BYTES))
    yield broker
    await broker.stop()


@pytest.mark.parametrize("broker", [1500], indirect=True)
async def test_a_replica_moves_while_it_is_written(broker: Broker, tmp_path: Path) -> None:
    partition = broker.add()
    await broker.write(partition, 100)
    writing = asyncio.create_task(broker.write(partition, 200))
    broker.moves.begin(partition, broker.b)
    assert broker.directories.future_home("t", 0) is broker.b
    await until(broker.is_moved)
    await writing
    await broker.write(partition, 5)
    assert partition.high_watermark == partition.log.log_end_offset == broker.acknowledged == 305
    assert Path(partition.log.directory) == tmp_path / "b" / "t-0"
    await until(lambda: not (tmp_path / "b" / "t-0" / "moved-here").exists())
    broker.a.collect_garbage().run()
    assert not [path for path in (tmp_path / "a").iterdir() if path.is_dir()]
    assert partition.flushes.is_flushed_by(broker.flushers[broker.b])


async def test_no_record_counts_that_the_new_directory_lacks(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = broker.add()
    await broker.write(partition, 20)
    gate = asyncio.Event()
    held = LogDirMoves._flush

    async def flush(self: LogDirMoves, log: Any, home: LogDirectory) -> None:
        await gate.wait()
        await held(self, log, home)

    monkeypatch.setattr(LogDirMoves, "_flush", flush)
    broker.moves.begin(partition, broker.b)
    await broker.write(partition, 20)
    assert not broker.is_moved(), "the copy is not on the disk yet"
    gate.set()
    await until(broker.is_moved)
    assert partition.log.flushed_end_offset == 40


async def test_no_record_is_acknowledged_before_the_renaming_is_on_the_disk(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it a start finds only the former log, with its flushed records."""
    counted: list[tuple[int, int]] = []
    relocate = Partition.relocate

    def look(self: Partition, log: PartitionLog, flusher: Any) -> None:
        flushed = self.log.flushed_end_offset
        relocate(self, log, flusher)
        counted.append((flushed, self.high_watermark))

    monkeypatch.setattr(Partition, "relocate", look)
    partition = broker.add()
    await broker.write(partition, 50)

    async def write_until_moved() -> None:
        while not broker.is_moved():
            await broker.write(partition, 1)

    writing = [asyncio.create_task(write_until_moved()) for _ in range(8)]
    broker.moves.begin(partition, broker.b)
    await asyncio.gather(*writing)
    ((flushed, high_watermark),) = counted
    assert high_watermark <= flushed
    assert partition.high_watermark == partition.log.log_end_offset == broker.acknowledged


@pytest.mark.parametrize("refused", ["snapshot", "renaming"])
async def test_a_refused_swap_leaves_the_replica_its_producers(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    partition = broker.add()
    for sequence in range(10):
        await produce(partition, sequence)
    refusals = []

    def refuse(*arguments: Any) -> None:
        refusals.append(arguments)
        raise OSError(errno.EMFILE, "too many open files")

    where, name = {
        "snapshot": (ProducerSnapshots, "write"),
        "renaming": (SegmentList, "move_to"),
    }[refused]
    held = getattr(where, name)
    monkeypatch.setattr(where, name, refuse)
    broker.moves.begin(partition, broker.b)
    copy = broker.b.futures.get(("t", 0))
    assert copy is not None
    await until(lambda: refusals)
    assert copy.producers is not partition.log.producers
    monkeypatch.setattr(where, name, held)
    for sequence in range(10, 15):
        await produce(partition, sequence)
    await until(broker.is_moved)
    known = partition.log.producers.get(PRODUCER_ID)
    assert known is not None
    assert [each.last_sequence for each in known.batches] == [10, 11, 12, 13, 14]


async def produce(partition: Partition, sequence: int) -> None:
    buffer = batch(1, producer=(PRODUCER_ID, 0, sequence))
    headers = check_produced(buffer, batches_max=1, allow_transactional=True)
    result = partition.append(buffer, headers)
    await partition.committed(result.last_offset + 1)


async def test_a_move_can_be_cancelled_and_reversed(broker: Broker, tmp_path: Path) -> None:
    partition = broker.add()
    await broker.write(partition, 10)
    broker.moves.begin(partition, broker.b)
    broker.moves.cancel("t", 0)
    assert broker.directories.future_home("t", 0) is None
    await broker.write(partition, 10)
    assert not broker.is_moved()
    broker.moves.begin(partition, broker.b)
    await until(broker.is_moved)
    before = read_all(partition.log)
    broker.moves.begin(partition, broker.a)
    await until(lambda: broker.directories.of("t", 0) is broker.a)
    assert read_all(partition.log) == before
    await broker.write(partition, 10)
    assert partition.high_watermark == 30


@pytest.mark.parametrize("broker", [600], indirect=True)
async def test_the_copy_of_a_deleted_replica_is_deleted(broker: Broker) -> None:
    partition = broker.add()
    await broker.write(partition, 50)
    broker.moves.begin(partition, broker.b)
    del broker.partitions["t", 0]
    broker.directories.delete_topic("t", TOPIC_ID)
    await until(lambda: not broker.moves._tasks)
    assert broker.directories.future_home("t", 0) is None
    assert broker.b.partitions_count == 0


@pytest.mark.parametrize("broker", [600], indirect=True)
async def test_a_copy_follows_a_replica_that_is_truncated(broker: Broker) -> None:
    partition = broker.add()
    await broker.write(partition, 50)
    broker.moves.begin(partition, broker.b)
    copy = broker.b.futures.get(("t", 0))
    assert copy is not None
    await until(lambda: copy.log_end_offset > 10)
    partition.resign(2, 2)
    partition.log.truncation.truncate_to(10, NOW_MS)
    partition.truncate_high_watermark()
    partition.become_leader(3)
    broker.acknowledged = 10
    await broker.write(partition, 5)
    await until(broker.is_moved)
    assert partition.log.log_end_offset == 15
    assert [each.epoch for each in partition.log.leader_epochs.entries] == [1, 3]


async def test_a_move_resumes_after_a_restart(tmp_path: Path) -> None:
    first = Broker(tmp_path)
    partition = first.add()
    await first.write(partition, 30)
    first.b.create_future("t", TOPIC_ID, 0, LogConfig())
    expected = read_all(partition.log)
    await first.stop()
    again = Broker(tmp_path)
    again.moves.apply(Changes())
    assert not again.is_moved(), "its replica does not exist yet"
    partition = again.add()
    again.moves.apply(Changes())
    await until(again.is_moved)
    assert read_all(partition.log) == expected
    await again.stop()
