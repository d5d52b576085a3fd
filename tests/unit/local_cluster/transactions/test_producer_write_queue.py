"""Writes of one producer that wait for their coordinator."""

from __future__ import annotations

import asyncio

import pytest

from local_cluster.transactions.add_partitions import ProducerWriteQueue

PRODUCER, OTHER = 7, 8


async def take(
    writes: ProducerWriteQueue, name: str, told: list[str], go_on: asyncio.Event
) -> None:
    async with writes.enter(PRODUCER):
        told.append(f"{name} begins")
        await go_on.wait()
        told.append(f"{name} ends")


async def steps() -> None:
    """Until every task has gone as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_turns_of_a_producer_come_one_after_the_other_as_they_were_asked_for() -> None:
    writes, told, go_on = ProducerWriteQueue(), list[str](), asyncio.Event()
    tasks = [asyncio.create_task(take(writes, name, told, go_on)) for name in "abc"]
    await steps()
    assert told == ["a begins"]
    go_on.set()
    await asyncio.gather(*tasks)
    assert told == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]


async def test_another_producer_does_not_wait() -> None:
    writes = ProducerWriteQueue()
    async with writes.enter(PRODUCER):
        assert writes.is_waiting(PRODUCER)
        assert not writes.is_waiting(OTHER)
        async with asyncio.timeout(1), writes.enter(OTHER):
            assert writes.is_waiting(OTHER)
        assert not writes.is_waiting(OTHER)
    assert not writes.is_waiting(PRODUCER)


async def test_a_write_that_comes_while_others_wait_waits_as_well() -> None:
    writes, told = ProducerWriteQueue(), list[str]()
    first_goes_on, second_goes_on = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(take(writes, "a", told, first_goes_on))
    second = asyncio.create_task(take(writes, "b", told, second_goes_on))
    await steps()
    first_goes_on.set()
    await first
    await steps()
    assert told == ["a begins", "a ends", "b begins"]
    assert writes.is_waiting(PRODUCER)
    second_goes_on.set()
    await second
    assert not writes.is_waiting(PRODUCER)


async def test_who_gives_up_waiting_holds_nobody_up() -> None:
    writes, told, go_on = ProducerWriteQueue(), list[str](), asyncio.Event()
    first, gone, last = (asyncio.create_task(take(writes, n, told, go_on)) for n in "abc")
    await steps()
    gone.cancel()
    await steps()
    assert gone.cancelled()
    go_on.set()
    await asyncio.gather(first, last)
    assert told == ["a begins", "a ends", "c begins", "c ends"]
    assert not writes.is_waiting(PRODUCER)


async def test_who_gives_up_in_its_turn_passes_it_on() -> None:
    writes, told, go_on = ProducerWriteQueue(), list[str](), asyncio.Event()
    first, last = (asyncio.create_task(take(writes, name, told, go_on)) for name in "ab")
    await steps()
    first.cancel()
    await steps()
    assert told == ["a begins", "b begins"]
    go_on.set()
    await last
    assert not writes.is_waiting(PRODUCER)


async def test_a_turn_that_fails_passes_on() -> None:
    writes = ProducerWriteQueue()
    with pytest.raises(ValueError, match="refused"):
        async with writes.enter(PRODUCER):
            raise ValueError("refused")
    assert not writes.is_waiting(PRODUCER)
    async with asyncio.timeout(1), writes.enter(PRODUCER):
        assert writes.is_waiting(PRODUCER)
