"""Writes of one producer that wait for their coordinator keep their order."""

from __future__ import annotations

import asyncio

import pytest

from local_cluster.transactions.add_partitions import ProducerWriteQueue

PRODUCER, OTHER = "tx", "other"


async def write(
    writes: ProducerWriteQueue, name: str, trace: list[str], release: asyncio.Event
) -> None:
    async with writes.enter(PRODUCER):
        trace.append(f"{name} begins")
        await release.wait()
        trace.append(f"{name} ends")


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_writes_of_a_producer_keep_their_order() -> None:
    writes, trace, release = ProducerWriteQueue(), list[str](), asyncio.Event()
    tasks = [asyncio.create_task(write(writes, name, trace, release)) for name in "abc"]
    await settle()
    assert trace == ["a begins"]
    release.set()
    await asyncio.gather(*tasks)
    assert trace == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]


async def test_another_producer_does_not_wait() -> None:
    writes = ProducerWriteQueue()
    async with writes.enter(PRODUCER):
        assert writes.is_waiting(PRODUCER)
        assert not writes.is_waiting(OTHER)
        async with asyncio.timeout(1), writes.enter(OTHER):
            assert writes.is_waiting(OTHER)
        assert not writes.is_waiting(OTHER)
    assert not writes.is_waiting(PRODUCER)


async def test_a_producer_waits_while_any_of_its_writes_waits() -> None:
    writes, trace = ProducerWriteQueue(), list[str]()
    release_first, release_second = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(write(writes, "a", trace, release_first))
    second = asyncio.create_task(write(writes, "b", trace, release_second))
    await settle()
    release_first.set()
    await first
    await settle()
    assert trace == ["a begins", "a ends", "b begins"]
    assert writes.is_waiting(PRODUCER)
    release_second.set()
    await second
    assert not writes.is_waiting(PRODUCER)


async def test_a_cancelled_waiter_blocks_no_write() -> None:
    writes, trace, release = ProducerWriteQueue(), list[str](), asyncio.Event()
    first, cancelled, last = (asyncio.create_task(write(writes, n, trace, release)) for n in "abc")
    await settle()
    cancelled.cancel()
    await settle()
    assert cancelled.cancelled()
    release.set()
    await asyncio.gather(first, last)
    assert trace == ["a begins", "a ends", "c begins", "c ends"]
    assert not writes.is_waiting(PRODUCER)


async def test_a_cancelled_write_lets_the_next_one_in() -> None:
    writes, trace, release = ProducerWriteQueue(), list[str](), asyncio.Event()
    first, last = (asyncio.create_task(write(writes, name, trace, release)) for name in "ab")
    await settle()
    first.cancel()
    await settle()
    assert trace == ["a begins", "b begins"]
    release.set()
    await last
    assert not writes.is_waiting(PRODUCER)


async def test_a_failed_write_lets_the_next_one_in() -> None:
    writes = ProducerWriteQueue()
    with pytest.raises(ValueError, match="refused"):
        async with writes.enter(PRODUCER):
            raise ValueError("refused")
    assert not writes.is_waiting(PRODUCER)
    async with asyncio.timeout(1), writes.enter(PRODUCER):
        assert writes.is_waiting(PRODUCER)
