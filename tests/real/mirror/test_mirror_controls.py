"""`heliograph mirror pause|resume|throttle` orders a real worker, and its successor after kill -9.

A link with a filter and transforms is killed in mid-stream.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, Record, encode_batch
from mirror_maker.formats import gaps_topic_name
from mirror_maker.rules.rule_settings import (
    Condition,
    HeaderValue,
    JsonTest,
    RecordFilter,
    Transform,
)
from tests.support.cluster import BrokerProcess
from tests.support.heliograph_command import HeliographCommand
from tests.support.mirror_process import MirrorProcess, check_map, mirror, read_map, read_records
from tests.support.producing import produce_to
from topology.deployment.deployment import Daemon, Deployment, LinkView, encode_deployment
from topology.deployment.state_dir import StateDir

pytestmark = pytest.mark.real

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
RATE = 20_000
"""Bytes per second."""
TOPIC = ("--link", "a-b", "--topic", "t")
BATCH_BYTES = 10_000
BATCHES = 300
"""At that rate, the records of one test would take minutes."""
Brokers = tuple[BrokerProcess, BrokerProcess]


def command_for(worker: MirrorProcess, directory: Path) -> HeliographCommand:
    """Return the command, with a deployment that has this worker."""
    command = HeliographCommand(directory)
    daemon = Daemon(
        key="m", role="mirror", label="", argv=(), ready_file=worker.settings.ready_file
    )
    view = LinkView(name="a-b", source="a", target="b", daemon="m")
    deployment = Deployment(name="d", topology_file="-", daemons=(daemon,), links=(view,))
    state = StateDir(command.state_dir)
    state.deployment_file.parent.mkdir(parents=True, exist_ok=True)
    state.deployment_file.write_text(encode_deployment(deployment))
    return command


def copy_of(at: TopicPartition) -> TopicPartition:
    return at._replace(topic=f"a.{at.topic}")


async def create(client: KafkaClient, *names: str) -> None:
    for name in names:
        # The records have old timestamps; retention by time would delete them.
        new = NewTopic(name=name, partitions=1, configs={"retention.ms": "-1"})
        assert (await client.create_topics([new]))[name] is None


async def check_equal(source: KafkaClient, target: KafkaClient, at: TopicPartition) -> None:
    """Compare both logs and the map, record by record."""
    originals = await read_records(source, at)
    copies = await read_records(target, copy_of(at))
    assert [r[1:] for r in copies] == [r[1:] for r in originals]
    check_map(await read_map(target, at), originals, copies)


async def test_a_topic_is_paused_and_resumed_over_a_kill(brokers: Brokers, tmp_path: Path) -> None:
    source_broker, target_broker = brokers
    async with (
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        await create(source, "t", "u")
        written = 0

        async def write() -> None:
            nonlocal written
            record = NewRecord(1_790_000_000_000 + written, b"k%d" % written, b"v")
            for at in (T0, U0):
                await produce_to(source, at, encode_batch([record]))
            written += 1

        async def is_copied(at: TopicPartition) -> bool:
            return len(await read_records(target, copy_of(at))) == written

        await write()
        async with mirror(
            tmp_path, source_broker.bootstrap, target_broker.bootstrap, topics=("t", "u")
        ) as worker:
            command = command_for(worker, tmp_path)

            async def is_held() -> bool:
                states = {each["topic"]: each["state"] for each in (await worker.link())["flows"]}
                return states == {"t": "HELD", "u": "RUNNING"}

            for at in (T0, U0):
                await worker.until(partial(is_copied, at))
            paused = await asyncio.to_thread(command.run, "mirror", "pause", *TOPIC)
            assert paused["paused"] == [{"topic": "t", "partition": None}]
            await worker.until(is_held)
            await write()
            await worker.until(lambda: is_copied(U0))
            await worker.kill()
            await write()
            await worker.start()
            await worker.until(lambda: is_copied(U0))
            await worker.until(is_held)
            assert len(await read_records(target, copy_of(T0))) == 1, "it was not resumed"
            resumed = await asyncio.to_thread(command.run, "mirror", "resume", *TOPIC)
            assert resumed["paused"] == []
            await worker.until(lambda: is_copied(T0))
            assert await worker.stop() == 0
        for at in (T0, U0):
            await check_equal(source, target, at)


async def test_levels_change_while_a_worker_runs_and_last_until_it_ends(
    brokers: Brokers, tmp_path: Path
) -> None:
    source_broker, target_broker = brokers
    ordered, changed = "an operator ordered", "level of logger mirror_maker"

    async with (
        KafkaClient(source_broker.bootstrap) as source,
        mirror(tmp_path, source_broker.bootstrap, target_broker.bootstrap) as worker,
    ):
        command = command_for(worker, tmp_path)

        async def run(*words: str) -> Any:
            return await asyncio.to_thread(command.run, *words)

        async def is_held(state: bool) -> bool:
            states = {each["state"] for each in (await worker.link())["flows"]}
            return states == {"HELD" if state else "RUNNING"}

        await create(source, "t")
        shown = await run("log-level", "a-b")
        assert shown["processes"] == [
            {"process": "m", "loggers": [{"logger": "root", "level": "INFO", "is_set": True}]}
        ]
        loggers = (await run("log-level", "m", "--all"))["processes"][0]["loggers"]
        assert {"mirror_maker", "mirror_maker.link.operator_controls", "local_cluster"} <= {
            each["logger"] for each in loggers
        }
        told = await run("log-level", "b", "mirror_maker=WARN")
        (told_of,) = told["processes"][0]["loggers"]
        assert (told_of["before"], told_of["level"]) == ("INFO", "WARN")
        assert f"{changed}: INFO -> WARN, set by 127.0.0.1, over HTTP" in worker.log_text()
        await worker.until(partial(is_held, False))
        await run("mirror", "pause", *TOPIC)
        await worker.until(partial(is_held, True))
        assert ordered not in worker.log_text()
        await run("log-level", "a-b", "--reset", "mirror_maker")
        assert f"{changed}: WARN -> INFO, that of its parent" in worker.log_text()
        await run("mirror", "resume", *TOPIC)
        await worker.until(partial(is_held, False))
        assert worker.log_text().count(ordered) == 1
        refused = await asyncio.to_thread(command.complain, "log-level", "m", "mirror_makr=WARN")
        assert "m has no logger 'mirror_makr'; did you mean 'mirror_maker'?" in refused
        await run("log-level", "m", "root=DEBUG")
        await worker.kill()
        await worker.start()
        assert await run("log-level", "a-b") == shown


async def test_a_rate_holds_over_a_kill_and_is_lifted_while_the_link_runs(
    brokers: Brokers, tmp_path: Path
) -> None:
    source_broker, target_broker = brokers
    random = Random(5)
    async with (
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        await create(source, "t")

        async def copied() -> int:
            return len(await read_records(target, copy_of(T0)))

        async def has_more_than(count: int) -> bool:
            return await copied() > count

        async with mirror(tmp_path, source_broker.bootstrap, target_broker.bootstrap) as worker:
            command = command_for(worker, tmp_path)
            arguments = ("mirror", "throttle", "--link", "a-b", "--target", str(RATE))
            told = await asyncio.to_thread(command.run, *arguments)
            assert told["target_bytes_per_second"] == RATE
            for number in range(BATCHES):
                record = NewRecord(1_790_000_000_000, b"%d" % number, random.randbytes(BATCH_BYTES))
                await produce_to(source, T0, encode_batch([record]))
            for _ in range(2):
                before = await copied()
                await worker.until(partial(has_more_than, before))
                assert await copied() < BATCHES, "the rate still holds"
                await worker.kill()
                await worker.start()

            async def has_rate() -> bool:
                controls = (await worker.link())["controls"]
                return bool(controls["target_bytes_per_second"] == RATE)

            await worker.until(has_rate)
            arguments = ("mirror", "throttle", "--link", "a-b", "--target", "0")
            told = await asyncio.to_thread(command.run, *arguments)
            assert told["target_bytes_per_second"] == 0
            await worker.until(lambda: has_more_than(BATCHES - 1))
            assert await worker.stop() == 0
        await check_equal(source, target, T0)


RULES: dict[str, Any] = {
    "filter": RecordFilter(drop=(Condition(value=JsonTest(json="/kind", equals="test")),)),
    "transform": (
        Transform(set_header=HeaderValue(name="from", value="a")),
        Transform(mask_field="/card"),
    ),
}


def by_the_rules(record: Record) -> Record | None:
    """Return what RULES make of it, computed in another way."""
    document = json.loads(record.value or b"")
    if document["kind"] == "test":
        return None
    document["card"] = "***"
    return record._replace(value=json.dumps(document).encode(), headers=(("from", b"a"),))


async def test_a_filter_with_transforms_is_exactly_once_over_kills(
    brokers: Brokers, tmp_path: Path
) -> None:
    source_broker, target_broker = brokers
    random = Random(6)
    async with (
        KafkaClient(source_broker.bootstrap) as source,
        KafkaClient(target_broker.bootstrap) as target,
    ):
        await create(source, "t")
        stopped = asyncio.Event()

        async def feed() -> None:
            number = 0
            while not stopped.is_set():
                records = []
                for _ in range(random.randint(1, 40)):
                    number += 1
                    kind = random.choice(("order", "test", "order"))
                    value = json.dumps({"kind": kind, "n": number, "card": "4111"}).encode()
                    records.append(NewRecord(1_790_000_000_000 + number, b"k%d" % number, value))
                codec = random.choice((0, 1, 2, 3, 4))
                await produce_to(source, T0, encode_batch(records, codec=codec))
                await asyncio.sleep(0.02)

        async def has_more_than(count: int) -> bool:
            return len(await read_records(target, copy_of(T0))) > count

        async with (
            mirror(tmp_path, source_broker.bootstrap, target_broker.bootstrap, **RULES) as worker,
            asyncio.TaskGroup() as group,
        ):
            feeding = group.create_task(feed())
            for _ in range(3):
                before = len(await read_records(target, copy_of(T0)))
                await worker.until(partial(has_more_than, before))
                await worker.kill()
                await worker.start()
            stopped.set()
            await feeding
            originals = await read_records(source, T0)
            expected = [(r, c) for r in originals if (c := by_the_rules(r)) is not None]
            assert 0 < len(expected) < len(originals)
            await worker.until(lambda: has_more_than(len(expected) - 1))
            assert await worker.stop() == 0
        copies = await read_records(target, copy_of(T0))
        assert [r[1:] for r in copies] == [each[1:] for _, each in expected]
        check_map(await read_map(target, T0), [original for original, _ in expected], copies)
        assert not await read_records(target, TopicPartition(gaps_topic_name("a-b"), 0))
