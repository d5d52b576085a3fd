"""`heliograph mirror repair` on real processes: an outside producer has written into a copy.

Two workers share the link, and the command asks the one that does not copy the partition.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.records.batch import NewRecord, Record, encode_batch
from mirror_maker.formats import GapJournal, OffsetMap, gaps_topic_name
from mirror_maker.formats.gaps import GapKind
from mirror_maker.settings import Limits
from tests.support.cluster import BrokerProcess
from tests.support.heliograph_command import HeliographCommand
from tests.support.mirror_process import MirrorProcess, mirror, read_map, read_records
from tests.support.producing import produce_to
from topology.deployment.deployment import Daemon, Deployment, LinkView, encode_deployment
from topology.deployment.state_dir import StateDir

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

T0, COPY = TopicPartition("t", 0), TopicPartition("a.t", 0)
AT = ("mirror", "repair", "a-b", "t", "0")
LIMITS = Limits(epoch_quiet_ms=1_500, controls_ms=200)
EXIT_NOT_DONE = 3
Brokers = tuple[BrokerProcess, BrokerProcess]


def command_for(worker: MirrorProcess, directory: Path) -> HeliographCommand:
    """Return the command, with a deployment that has this worker."""
    command = HeliographCommand(directory)
    ready = worker.settings.ready_file
    daemon = Daemon(key="m", role="mirror", label="", argv=(), ready_file=ready)
    view = LinkView(name="a-b", source="a", target="b", daemon="m")
    deployment = Deployment(name="d", topology_file="-", daemons=(daemon,), links=(view,))
    state = StateDir(command.state_dir)
    state.deployment_file.parent.mkdir(parents=True, exist_ok=True)
    state.deployment_file.write_text(encode_deployment(deployment))
    return command


async def write(client: KafkaClient, at: TopicPartition, *values: bytes) -> None:
    """Write one batch."""
    batch = encode_batch([NewRecord(1_790_000_000_000, b"k", value) for value in values])
    await produce_to(client, at, batch)


async def state_of(worker: MirrorProcess) -> tuple[str, str | None] | None:
    """Return the partition's state; None if this worker does not copy it."""
    flows = (await worker.link())["flows"]
    return next(((each["state"], each["trouble"]) for each in flows), None)


async def journal(client: KafkaClient) -> GapJournal:
    found = GapJournal()
    async for record in read_topic(client, gaps_topic_name("a-b")):
        found.replay(record.key, record.value)
    return found


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def places(offset_map: OffsetMap) -> dict[int, int]:
    return {
        run.source_offset + n: run.target_offset + n
        for run in offset_map.runs()
        for n in range(run.records_count)
    }


@pytest.mark.parametrize("how", ["recopy", "fresh", "skip"])
async def test_a_copy_that_an_outsider_wrote_into_is_repaired(
    brokers: Brokers, tmp_path: Path, how: str
) -> None:
    source_broker, target_broker = brokers
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(KafkaClient(source_broker.bootstrap))
        target = await stack.enter_async_context(KafkaClient(target_broker.bootstrap))
        new = NewTopic(name="t", partitions=1, configs={"retention.ms": "-1"})
        assert (await source.create_topics([new]))["t"] is None
        early = [b"early %d" % n for n in range(20)]
        late = [b"late %d" % n for n in range(5)]
        await write(source, T0, *early)
        workers = [
            await stack.enter_async_context(
                mirror(
                    tmp_path,
                    source_broker.bootstrap,
                    target_broker.bootstrap,
                    worker_id=worker_id,
                    limits=LIMITS,
                )
            )
            for worker_id in ("w1", "w2")
        ]

        async def owner() -> MirrorProcess | None:
            states = [await state_of(each) for each in workers]
            found = [each for each, state in zip(workers, states, strict=True) if state]
            return found[0] if len(found) == 1 else None

        async def is_copied() -> bool:
            return len(await read_records(target, COPY)) == len(early) and (
                await owner() is not None
            )

        async def is_failed() -> bool:
            worker = await owner()
            return worker is not None and await state_of(worker) == ("FAILED", "foreign")

        await workers[0].until(is_copied)
        await write(target, COPY, b"outsider")
        await write(source, T0, *late)
        await workers[0].until(is_failed)
        copier = await owner()
        (other,) = (each for each in workers if each is not copier)
        command = command_for(other, tmp_path)
        before = await read_records(target, COPY)
        shown = await asyncio.to_thread(command.run, *AT, code=EXIT_NOT_DONE)
        dry = await asyncio.to_thread(command.run, *AT, "--dry-run", "--how", how)
        assert dry == shown
        assert values(await read_records(target, COPY)) == values(before)
        assert list((await journal(target)).all_entries()) == []
        check_shown(shown)
        told = await asyncio.to_thread(command.run, *AT, "--how", how)
        assert (told["ordered"], told["faults"]) == (how, shown["faults"])

        assert copier is not None
        await copier.until(lambda: is_running(copier))
        await write(source, T0, b"last")
        originals = await read_records(source, T0)
        await copier.until(lambda: has_last(target))
        await copier.until(lambda: is_mapped(target, len(originals)))
        await check(target, originals, before, how)
        nothing = await asyncio.to_thread(command.complain, *AT, "--how", how)
        assert "nothing is wrong" in nothing
        assert (await asyncio.to_thread(command.run, *AT))["is_well"] is True

        async def is_audited() -> bool:
            link = await copier.link()
            return link["state"] == "RUNNING" and link["reason"] is None

        await copier.until(is_audited)


def check_shown(shown: dict[str, Any]) -> None:
    assert shown["is_well"] is False
    assert [(each["kind"], each["target_from"]) for each in shown["faults"]] == [("FOREIGN", 20)]
    assert all(each["is_possible"] for each in shown["ways"])
    again = {each["how"]: each["copied_again"]["records"] for each in shown["ways"]}
    assert again["fresh"] >= 20
    assert again["skip"] == 0


async def is_running(worker: MirrorProcess) -> bool:
    state = await state_of(worker)
    return state is not None and state[0] in ("RUNNING", "CATCHING_UP")


async def has_last(target: KafkaClient) -> bool:
    return b"last" in values(await read_records(target, COPY))


async def is_mapped(target: KafkaClient, count: int) -> bool:
    return (await read_map(target, T0)).source_next == count


async def check(
    target: KafkaClient, originals: list[Record], before: list[Record], how: str
) -> None:
    """Check the copy, the places of the records in the map, and the journal."""
    copies = await read_records(target, COPY)
    told = await journal(target)
    gaps = [each for each in told.all_entries() if each.kind is GapKind.LOST]
    foreign = [each for each in told.all_entries() if each.kind is GapKind.FOREIGN]
    expected = values(originals)
    if how == "fresh":
        assert values(copies) == expected
        assert copies[0].offset == len(before), "the earlier records are deleted"
        assert (gaps[0].source_from, gaps[0].source_to, foreign) == (0, None, [])
    else:
        assert copies[: len(before)] == before
        assert [(each.target_offset, each.target_to) for each in foreign] == [(20, 21)]
    if how == "skip":
        assert gaps == []
        assert [each for each in values(copies) if each != b"outsider"] == expected
    if how == "recopy":
        (gap,) = gaps
        assert (gap.reason, gap.source_to) == ("repair_recopy", None)
        assert values(copies[len(before) :]) == expected[gap.source_from :]
    content = {copy.offset: copy.value for copy in copies}
    found = places(await read_map(target, T0))
    assert {offset: content[place] for offset, place in found.items()} == dict(enumerate(expected))
    offset_map = await read_map(target, T0)
    for offset in range(len(expected) + 1):
        behind = offset_map.target_start if offset == 0 else found[offset - 1] + 1
        assert offset_map.translate(offset).target_offset == behind
