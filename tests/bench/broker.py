"""Our broker and Apache Kafka side by side, one after the other on this machine.

    .venv/bin/python -m tests.bench.broker [--megabytes 500] [-o json]

The same raw client drives both: batches are built once and sent as bytes, several requests in
flight, and read back by a fetch loop, so that the client is not what is measured. Both write to
the page cache (`flush: page_cache` is Kafka's own mode); ours runs once more with group commit.
The figure to compare is CPU-seconds of the broker per GB (or per 100,000 requests): the machine's
other load moves it least. Kafka gets a warm-up round first, because the JVM compiles as it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import pytest
from rich.console import Console
from rich.table import Table

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import FetchPosition, NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import iter_headers
from tests.cluster import running_broker
from tests.kafka_from_maven import running_kafka
from topology.zookeeper import EmbeddedZooKeeper

IN_FLIGHT = 8
PARTITIONS = 4
RECORD_BYTES = 1_000
RECORDS_PER_BATCH = 256
SMALL_REQUESTS = 20_000
NONE, LZ4 = 0, 3


@dataclass(frozen=True)
class Row:
    """One measured piece of work on one system."""

    system: str
    work: str
    megabytes: float
    requests: int
    seconds: float
    broker_cpu_seconds: float
    resident_megabytes: float


@dataclass(frozen=True)
class System:
    """A running broker under test."""

    name: str
    bootstrap: str
    pid: int
    warm_up: bool


async def measure(system: System, megabytes: int) -> list[Row]:
    """Every piece of work on one system."""
    rows: list[Row] = []
    async with KafkaClient(system.bootstrap, client_id="bench") as client:
        for warming in (True, False) if system.warm_up else (False,):
            done: list[Row] = []
            for work, codec in (("produce none", NONE), ("produce lz4", LZ4)):
                topic = f"{work.replace(' ', '-')}-{warming}"
                batch = make_batch(codec, RECORDS_PER_BATCH)
                count = max(1, megabytes * 1_000_000 // len(batch))
                await create(client, topic)
                done.append(await timed(system, work, produce(client, topic, batch, count)))
                if codec == NONE:
                    done.append(await timed(system, "fetch warm", fetch(client, topic)))
            topic = f"single-{warming}"
            await create(client, topic)
            one = make_batch(NONE, 1)
            work = "single-record requests"
            done.append(await timed(system, work, produce(client, topic, one, SMALL_REQUESTS)))
            rows = done
    return rows


def make_batch(codec: int, records: int) -> bytearray:
    """A batch of records that compress to about half, as JSON of measurements does."""
    rng = random.Random(1)
    return encode_batch(
        [
            NewRecord(
                1_700_000_000_000 + i, b"k%d" % i, rng.randbytes(RECORD_BYTES // 2).hex().encode()
            )
            for i in range(records)
        ],
        codec=codec,
    )


def _half_random(rng: random.Random) -> bytes:
    return rng.randbytes(RECORD_BYTES // 2).hex().encode()


async def create(client: KafkaClient, topic: str) -> None:
    errors = await client.create_topics([NewTopic(name=topic, partitions=PARTITIONS)])
    assert errors[topic] is None, errors
    # A leader may be named before it serves.
    wanted = {TopicPartition(topic, index): -1 for index in range(PARTITIONS)}
    while any(listed.error for listed in (await client.list_offsets(wanted)).values()):
        await asyncio.sleep(0.05)


async def produce(client: KafkaClient, topic: str, batch: bytearray, count: int) -> tuple[int, int]:
    """Send the batch `count` times over all partitions; (bytes, requests)."""
    leader = (await client.metadata([topic])).topics[topic].partitions[0].leader
    await client.connection(leader)
    in_flight: deque[asyncio.Task[object]] = deque()
    for index in range(count):
        at = TopicPartition(topic, index % PARTITIONS)
        in_flight.append(asyncio.create_task(_produce_one(client, leader, at, batch)))
        if len(in_flight) >= IN_FLIGHT:
            await in_flight.popleft()
    for task in in_flight:
        await task
    return len(batch) * count, count


async def _produce_one(
    client: KafkaClient, leader: int, at: TopicPartition, batch: bytearray
) -> None:
    answer = (await client.produce(leader, {at: batch}))[at]
    assert not answer.error, answer


async def fetch(client: KafkaClient, topic: str) -> tuple[int, int]:
    """Read the whole topic; (bytes, requests)."""
    ends = await client.list_offsets({TopicPartition(topic, i): -1 for i in range(PARTITIONS)})
    leader = (await client.metadata([topic])).topics[topic].partitions[0].leader
    offsets = dict.fromkeys(ends, 0)
    bytes_read = requests = 0
    while wanted := {at: FetchPosition(o) for at, o in offsets.items() if o < ends[at].offset}:
        answers = await client.fetch(leader, wanted, partition_bytes_max=4_194_304)
        requests += 1
        for at, answer in answers.items():
            assert not answer.error, answer
            bytes_read += len(answer.records)
            for _, header in iter_headers(answer.records):
                offsets[at] = header.next_offset
    return bytes_read, requests


async def timed(system: System, work: str, running: Awaitable[tuple[int, int]]) -> Row:
    """Await one piece of work and note what it cost the broker."""
    process = psutil.Process(system.pid)
    before = process.cpu_times()
    start = time.perf_counter()
    bytes_count, requests = await running
    seconds = time.perf_counter() - start
    after = process.cpu_times()
    cpu = after.user + after.system - before.user - before.system
    resident = process.memory_info().rss / 1e6
    return Row(system.name, work, bytes_count / 1e6, requests, seconds, cpu, resident)


@asynccontextmanager
async def running_zookeeper(directory: Path) -> AsyncIterator[str]:
    """A ZooKeeper of its own for the bench."""
    directory.mkdir()
    server = EmbeddedZooKeeper(
        directory=directory, data_directory=directory / "data", port=19_299, fsync=False
    )
    for path, text in server.files.items():
        path.write_text(text)
    process = await asyncio.create_subprocess_exec(
        *server.argv, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield server.connect
    finally:
        process.kill()
        await process.wait()


async def run(megabytes: int) -> list[Row]:
    """Both systems in turn."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for flush in ("page_cache", "fsync"):
            async with AsyncExitStack() as stack:
                home = directory / flush
                home.mkdir()
                connect = await stack.enter_async_context(running_zookeeper(home / "zookeeper"))
                broker = await stack.enter_async_context(running_broker(connect, home, flush=flush))
                version = importlib.metadata.version("heliograph")
                system = System(
                    f"heliograph {version}, {flush}", broker.bootstrap, broker.pid, False
                )
                rows += await measure(system, megabytes)
        try:
            async with running_kafka(directory) as kafka:
                assert kafka.process is not None
                rows += await measure(
                    System("Apache Kafka 4.3.0", kafka.bootstrap, kafka.process.pid, True),
                    megabytes,
                )
        except pytest.skip.Exception as reason:
            print(f"Apache Kafka is not measured: {reason}", file=sys.stderr)
    return rows


def show(rows: list[Row]) -> None:
    """A table for people."""
    table = Table(
        "work",
        "system",
        "MB/s",
        "requests/s",
        "broker CPU s/GB",
        "CPU s/100k requests",
        "MB memory",
    )
    for row in sorted(rows, key=lambda row: row.work):
        table.add_row(
            row.work,
            row.system,
            f"{row.megabytes / row.seconds:.0f}",
            f"{row.requests / row.seconds:.0f}",
            f"{row.broker_cpu_seconds / row.megabytes * 1000:.2f}",
            f"{row.broker_cpu_seconds / row.requests * 100_000:.2f}",
            f"{row.resident_megabytes:.0f}",
        )
    Console(width=120).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=500, help="bytes per produce row, in MB")
    parser.add_argument("-o", "--output", choices=("human", "json"), default="human")
    arguments = parser.parse_args()
    rows = asyncio.run(run(arguments.megabytes))
    if arguments.output == "json":
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
