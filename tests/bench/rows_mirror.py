"""Rows about how fast and how cheaply a mirror copies: start, catching up, discovery, idling."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import Final

from aiohttp import ClientError, ClientSession

from local_cluster.client.client import KafkaClient
from tests.bench import raw_frames
from tests.bench.mirror_load import PARTITIONS, make_batches
from tests.bench.mirror_model import (
    FIRST_RECORD_SECONDS,
    MM2,
    MM2_TUNED,
    RECORDS_PER_SECOND,
    Batches,
    MirrorScale,
)
from tests.bench.mirror_pairs import WAY_TITLES, Pair, Way, create_topics, records_of
from tests.bench.mirrors import Route, RunningMirror, running_mirror
from tests.bench.model import (
    CPU_CORE,
    CPU_PER_GB,
    MB_PER_SECOND,
    MEMORY_MB,
    OURS_PLAIN,
    Figures,
    Row,
    Side,
    Wanted,
)
from tests.bench.raw_client import connected

POLL_SECONDS: Final = 0.02
FIRST_RECORD_SECONDS_MAX: Final = 180.0
SETTLED_SECONDS_MAX: Final = 600.0
SETTLED_POLL_SECONDS: Final = 1.0
MEMORY_MB_MAX: Final = 200
_EVERY_600_S: Final = "every 600 s"
_HALF_OF_THEM: Final = "5,000 after 3 min"

START: Final = Row(
    name="start",
    title="Start of the mirror's process to the first record on the target",
    wanted={FIRST_RECORD_SECONDS: [Wanted(1.5, "absolute")]},
    left_out={OURS_PLAIN: ""},
)
DISCOVERY: Final = Row(
    name="discovery",
    title="A new topic with a record, until the record is on the target",
    wanted={FIRST_RECORD_SECONDS: [Wanted(3.0, "absolute")]},
    left_out={MM2: _EVERY_600_S, MM2_TUNED: _EVERY_600_S, OURS_PLAIN: ""},
)
IDLE: Final = Row(
    name="idle",
    title="Idle, 10,000 partitions",
    wanted={CPU_CORE: [Wanted(5.0, "absolute")], MEMORY_MB: [Wanted(400, "absolute")]},
    left_out={MM2: "", MM2_TUNED: _HALF_OF_THEM, OURS_PLAIN: ""},
)
_CPU_RATIO_MAX: Final[dict[Batches, float]] = {"256k": 0.025, "16k": 0.06}
_TITLES: Final[dict[Batches, str]] = {
    "256k": "256 KiB batches",
    "16k": "16 KiB batches",
    "single": "batches of one record",
}


def catch_up_row(way: Way, kind: Batches) -> Row:
    """The row of one way and size of batches."""
    cpu = _CPU_RATIO_MAX.get(kind)
    rate = 3.0 if kind == "256k" or (way, kind) == ("near", "single") else 1.0
    return Row(
        name=f"{way}-{kind}",
        title=f"Catch up, {_TITLES[kind]}, {WAY_TITLES[way]}",
        wanted={
            MB_PER_SECOND: [Wanted(rate)],
            CPU_PER_GB: [Wanted(cpu)] if cpu is not None else [],
            MEMORY_MB: [Wanted(MEMORY_MB_MAX, "absolute")],
        },
    )


async def start(pair: Pair, side: Side, scale: MirrorScale) -> Figures:
    """Seconds from the start of the process to the first record."""
    topic = await pair.filled_topic("16k", scale)
    route = pair.route(topic.name)
    async with KafkaClient(pair.target.bootstrap, client_id="bench") as client:
        async with running_mirror(side, route, pair.directory) as mirror:
            await _until_records(client, mirror, route.copy_of(topic.name), 1)
            seconds = time.perf_counter() - mirror.started_at
        await pair.delete_copies(f"{route.alias}.")
    return {FIRST_RECORD_SECONDS: seconds}


async def catch_up(pair: Pair, side: Side, scale: MirrorScale, way: Way, kind: Batches) -> Figures:
    """Rate and cost of copying a topic that is full when the mirror starts.

    Counting begins after a share of the topic or some seconds, when a JVM has compiled its loops.
    It ends with the topic, or when a slow mirror's time is over. A topic that was copied before the
    first look counts from the start of the process.
    """
    topic = await pair.filled_topic(kind, scale)
    route = pair.route(topic.name, way)
    copy = route.copy_of(topic.name)
    record_bytes = topic.size_bytes / topic.records
    async with KafkaClient(pair.target.bootstrap, client_id="bench") as client:
        async with running_mirror(side, route, pair.directory) as mirror:
            await _until_records(client, mirror, copy, 1)
            warm_at = time.perf_counter() + scale.warm_up_seconds
            warm_records = topic.records * scale.warm_up_share
            copied = 0
            while copied < warm_records and time.perf_counter() < warm_at:
                await asyncio.sleep(POLL_SECONDS)
                copied = await records_of(client, copy)
                mirror.check_running()
            cpu_before, began, before = 0.0, mirror.started_at, 0
            if copied < topic.records:
                cpu_before, began, before = mirror.cpu_seconds(), time.perf_counter(), copied
            while copied < topic.records and (
                time.perf_counter() - began < scale.measure_seconds_max
            ):
                await asyncio.sleep(POLL_SECONDS)
                copied = await records_of(client, copy)
                mirror.check_running()
            seconds = time.perf_counter() - began
            cpu = mirror.cpu_seconds() - cpu_before
            memory_mb = mirror.memory_mb()
        await pair.delete_copies(f"{route.alias}.")
    records = copied - before
    if not records:
        raise RuntimeError(f"{side} copied nothing of {topic.name} in {seconds:.0f} s")
    return {
        MB_PER_SECOND: records * record_bytes / seconds / 1e6,
        RECORDS_PER_SECOND: records / seconds,
        CPU_PER_GB: cpu / (records * record_bytes) * 1e9,
        MEMORY_MB: memory_mb,
    }


async def discovery(pair: Pair, side: Side, scale: MirrorScale) -> Figures:
    """Seconds from the creation of a topic to its first record on the target."""
    prefix = pair.new_topic("discovery")
    route = pair.route(f"{prefix}.*")
    known, new = f"{prefix}-known", f"{prefix}-new"
    await pair.source.create_topic(known, PARTITIONS)
    _produce_one(pair, known)
    async with KafkaClient(pair.target.bootstrap, client_id="bench") as client:
        async with running_mirror(side, route, pair.directory) as mirror:
            await _until_records(client, mirror, route.copy_of(known), 1)
            began = time.perf_counter()
            await pair.source.create_topic(new, PARTITIONS)
            _produce_one(pair, new)
            await _until_records(client, mirror, route.copy_of(new), 1)
            seconds = time.perf_counter() - began
        await pair.delete_copies(f"{route.alias}.")
    return {FIRST_RECORD_SECONDS: seconds}


async def idle(pair: Pair, side: Side, scale: MirrorScale) -> Figures:
    """What a mirror costs that has many partitions and nothing to copy."""
    count, partitions = scale.idle_topics, scale.idle_partitions
    names = [f"idle-{index}" for index in range(count)]
    async with KafkaClient(pair.source.bootstrap, client_id="bench") as client:
        there = (await client.metadata()).topics
    missing = [name for name in names if name not in there]
    await create_topics(pair.source.bootstrap, missing, partitions)
    route = pair.route("idle-.*")
    try:
        async with running_mirror(side, route, pair.directory) as mirror:
            async with asyncio.timeout(SETTLED_SECONDS_MAX):
                while not await _is_settled(mirror, pair, side, route, names, partitions):
                    mirror.check_running()
                    await asyncio.sleep(SETTLED_POLL_SECONDS)
            await asyncio.sleep(scale.idle_settle_seconds)
            before, began = mirror.cpu_seconds(), time.perf_counter()
            await asyncio.sleep(scale.idle_seconds)
            cpu = mirror.cpu_seconds() - before
            seconds = time.perf_counter() - began
            memory_mb = mirror.memory_mb()
    finally:
        # What a side leaves behind would burden the next one.
        await pair.delete_copies(f"{route.alias}.")
    return {CPU_CORE: cpu / seconds * 100, MEMORY_MB: memory_mb}


async def _is_settled(
    mirror: RunningMirror,
    pair: Pair,
    side: Side,
    route: Route,
    names: list[str],
    partitions: int,
) -> bool:
    """Whether every partition is there, and, of ours, copied from."""
    if side in (MM2, MM2_TUNED):
        async with KafkaClient(pair.target.bootstrap, client_id="bench") as client:
            there = (await client.metadata()).topics
        return all(route.copy_of(name) in there for name in names)
    with contextlib.suppress(OSError, ClientError, json.JSONDecodeError, KeyError):
        ready = json.loads((mirror.log.parent / "ready.json").read_text())
        url = f"http://127.0.0.1:{ready['http_port']}/status"
        async with ClientSession() as session, session.get(url) as answer:
            (link,) = (await answer.json())["links"]
        return bool(link["state"] == "RUNNING" and link["partitions"] == len(names) * partitions)
    return False


async def _until_records(
    client: KafkaClient, mirror: RunningMirror, topic: str, records: int
) -> None:
    deadline = time.perf_counter() + FIRST_RECORD_SECONDS_MAX
    while await records_of(client, topic) < records:
        mirror.check_running()
        if time.perf_counter() > deadline:
            raise RuntimeError(f"{topic} has no record:\n{mirror.log_end()}")
        await asyncio.sleep(POLL_SECONDS)


def _produce_one(pair: Pair, topic: str) -> None:
    batch, _ = make_batches("single")[0]
    with connected("127.0.0.1", pair.source.port) as (connection,):
        raw_frames.produced(connection.call(raw_frames.produce_frame(topic, {0: batch})))
