"""Identical names in both directions: a group fails over and back and skips nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from tests.real.mirror.test_mirror_groups import commit, position
from tests.real.mirror.test_mirror_identity import AT, BothWays, running_both_ways
from tests.support.mirror_process import read_records

pytestmark = pytest.mark.real

WAIT_SECONDS_MAX = 120.0
GROUP = "app"


@pytest.fixture
async def both_ways(zookeeper: str, tmp_path: Path) -> AsyncIterator[BothWays]:
    async with running_both_ways(zookeeper, tmp_path, sync_group_offsets=True) as both_ways:
        yield both_ways


async def values(both_ways: BothWays, name: str) -> list[bytes]:
    return [record.value or b"" for record in await read_records(both_ways.clients[name], AT)]


async def until(both_ways: BothWays, target: str, group: str, **wanted: Any) -> int:
    """Wait until the link into `target` reports this of the group's position; return its round."""
    seen: dict[str, Any] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while True:
                seen = (await both_ways.workers[target].link())["groups"]
                for each in seen["positions"]:
                    if each["group"] == group and wanted.items() <= each.items():
                        rounds: int = seen["rounds"]
                        return rounds
                await asyncio.sleep(0.05)
    raise AssertionError(f"not {wanted}: {seen}\n{both_ways.workers[target].log_text()[-4000:]}")


async def some_rounds_later(both_ways: BothWays) -> None:
    """Wait until both links have started and finished two rounds over the groups."""
    for worker in both_ways.workers.values():
        before = (await worker.link())["groups"]["rounds"]
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while (await worker.link())["groups"]["rounds"] < before + 3:
                await asyncio.sleep(0.05)


async def consume(both_ways: BothWays, name: str, count: int) -> list[bytes]:
    """Return the next records of a member of the group on that side; it commits and leaves."""
    consumer = AIOKafkaConsumer(
        AT.topic,
        bootstrap_servers=both_ways.workers[name].settings.target_bootstrap,
        group_id=GROUP,
        auto_offset_reset="none",
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            found = [(await consumer.getone()).value for _ in range(count)]
        await consumer.commit()
    finally:
        await consumer.stop()
    return found


async def test_a_group_fails_over_and_back(both_ways: BothWays) -> None:
    east = both_ways.clients["east"]
    west = both_ways.clients["west"]
    for _ in range(3):
        await both_ways.produce(20)
        await both_ways.until_complete()
    await both_ways.until_everything_was_read()
    in_east, in_west = await values(both_ways, "east"), await values(both_ways, "west")
    # The group reads in the east; the west gets the position of its first unread record.
    read = set(in_east[:70])
    place = next(at for at, value in enumerate(in_west) if value not in read)
    again = sum(value in read for value in in_west[place:])
    await commit(east, GROUP, AT, 70)
    await until(both_ways, "west", GROUP, state="merged", target_offset=place, reread_records=again)
    assert await position(west, GROUP, AT) == place
    # It does not come back, neither at once nor when the group rewinds.
    await until(both_ways, "east", GROUP, state="mirrored", source_offset=place)
    await commit(east, GROUP, AT, 10)
    await until(both_ways, "west", GROUP, state="ahead", source_offset=10)
    await some_rounds_later(both_ways)
    assert await position(east, GROUP, AT) == 10
    assert await position(west, GROUP, AT) == place
    await commit(east, GROUP, AT, 70)
    # Over to the west: unread records are read, and the reported number is read again.
    rest = await consume(both_ways, "west", len(in_west) - place)
    assert rest == in_west[place:]
    assert read.union(rest) == set(in_west)
    await until(both_ways, "east", GROUP, state="merged", target_offset=len(in_east))
    assert await position(east, GROUP, AT) == len(in_east)
    await until(both_ways, "west", GROUP, state="mirrored", source_offset=len(in_east))
    # Back again: nothing is missed, nothing is read twice.
    await both_ways.produce(20)
    await both_ways.until_complete()
    new = (await values(both_ways, "east"))[len(in_east) :]
    assert await consume(both_ways, "east", len(new)) == new
    await until(both_ways, "west", GROUP, state="merged", target_offset=len(in_west) + len(new))


async def test_a_group_in_use_on_the_other_side_is_left_alone(both_ways: BothWays) -> None:
    await both_ways.produce(20)
    await both_ways.until_complete()
    await commit(both_ways.clients["west"], GROUP, AT, 3)
    await until(both_ways, "east", GROUP, source_offset=3, state="merged")
    consumer = AIOKafkaConsumer(
        AT.topic,
        bootstrap_servers=both_ways.workers["west"].settings.target_bootstrap,
        group_id=GROUP,
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while not consumer.assignment():
                await asyncio.sleep(0.05)
        end = len(await values(both_ways, "east"))
        await commit(both_ways.clients["east"], GROUP, AT, end)
        await until(both_ways, "west", GROUP, state="active", source_offset=end)
        assert await position(both_ways.clients["west"], GROUP, AT) == 3
    finally:
        await consumer.stop()
    await until(both_ways, "west", GROUP, state="merged", source_offset=end, target_offset=end)
    assert await position(both_ways.clients["west"], GROUP, AT) == end
