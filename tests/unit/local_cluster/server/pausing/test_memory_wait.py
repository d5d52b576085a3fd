"""The memory of requests on listeners: who waits, who is served meanwhile, who has to leave."""

from __future__ import annotations

import asyncio
import logging

import pytest

import local_cluster.handlers.all  # noqa: F401  (registers what is served)
from local_cluster.server import listeners as listeners_module
from local_cluster.server.pausing import memory_wait
from local_cluster.server.pausing.memory_wait import GRACE_MS, HOLD_MS_MAX, MemoryWait
from local_cluster.wire.frame import FRAMES_PER_READ_MAX, FrameReceiver, frame_size_prefix
from local_cluster.wire.request_memory import RequestMemory
from tests.support.authority import Authority
from tests.unit.local_cluster.server.served_listeners import (
    HUNDRED_MIB,
    log_in,
    request,
    serving,
)

LARGE_BYTES = 300_000
LESS_THAN_A_READ_BYTES = 40_000
SMALL_BYTES = 100


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize("size", [LARGE_BYTES, LESS_THAN_A_READ_BYTES])
@pytest.mark.parametrize("listener", ["CLIENTS", "SECURE"])
async def test_a_large_request_waits_until_memory_comes_back(
    authority: Authority, listener: str, size: int
) -> None:
    async with serving(authority) as broker:
        holders = await broker.announcing(listener, 3)
        await broker.until(lambda: broker.memory.waiting == 1)
        assert broker.memory.used == 2 * HUNDRED_MIB
        client = await broker.connect(listener)
        # After many small requests reads stay small. So over TLS the request of less than a read is
        # in the broker's buffers whole when it has to wait.
        numbers = range(FRAMES_PER_READ_MAX + 1)
        before = b"".join(request(SMALL_BYTES, number) for number in numbers)
        client.writer.write(before + request(size, 200) + request(SMALL_BYTES, 300))
        assert [await client.response() for _ in numbers] == list(numbers)
        await broker.until(lambda: broker.memory.waiting == 2)
        bystander = await broker.connect(listener)
        assert await bystander.asks(SMALL_BYTES) == 7, "small requests need no memory"
        for holder in holders:
            holder.writer.close()
        assert await client.response() == 200
        assert await client.response() == 300
        await broker.until(lambda: broker.memory.used == 0)
        assert broker.memory.waiting == 0


async def test_who_leaves_while_it_waits_holds_nothing(authority: Authority) -> None:
    async with serving(authority) as broker:
        holders = await broker.announcing("CLIENTS", 2)
        await broker.until(lambda: broker.memory.available <= 0)
        waiting = await broker.announcing("CLIENTS", 5)
        await broker.until(lambda: broker.memory.waiting == 5)
        for each in waiting:
            each.writer.transport.abort()
        holders[0].writer.close()
        await broker.until(lambda: broker.memory.used == HUNDRED_MIB)
        client = await broker.connect("CLIENTS")
        assert await client.asks(LARGE_BYTES) == 7
        broker.listeners.close()
        await broker.until(lambda: broker.memory.used == 0)


async def test_brokers_are_not_held_up_by_clients(authority: Authority) -> None:
    async with serving(authority) as broker:
        await broker.announcing("CLIENTS", 3)
        await broker.until(lambda: broker.memory.waiting == 1)
        other = await broker.connect("INTERNAL")
        assert await other.asks(LARGE_BYTES) == 7
        by_principal = await broker.connect("PASSWORDS")
        await log_in(by_principal, "broker")
        assert await by_principal.asks(LARGE_BYTES) == 7
        client = await broker.connect("PASSWORDS")
        await log_in(client, "alice")
        client.writer.write(request(LARGE_BYTES))
        await broker.until(lambda: broker.memory.waiting == 2)


async def test_strangers_hold_no_memory_before_they_have_proved_who_they_are(
    authority: Authority,
) -> None:
    async with serving(authority, limit_bytes=1) as broker:
        strangers = [await broker.connect("PASSWORDS") for _ in range(20)]
        for each in strangers:
            each.writer.write(frame_size_prefix(512 * 1024) + b"\0" * 20_000)
        handshakes = [await broker.connect("SECURE") for _ in range(1)]
        assert await handshakes[0].asks(LARGE_BYTES) == 7
        client = await broker.connect("CLIENTS")
        assert await client.asks(LARGE_BYTES) == 7
        await broker.until(lambda: broker.memory.used == 0)
        greedy = await broker.connect("PASSWORDS")
        greedy.writer.write(frame_size_prefix(HUNDRED_MIB) + b"\0")
        assert await greedy.has_ended()


async def test_slow_senders_are_closed_while_others_wait_and_addresses_take_turns(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(memory_wait, "GRACE_MS", 20)
    monkeypatch.setattr(listeners_module, "MEMORY_SWEEP_MS", 10)
    async with serving(authority) as broker:
        crowd = await broker.announcing("CLIENTS", 40)
        await broker.until(lambda: broker.memory.waiting == 38)
        client = await broker.connect("CLIENTS", "127.0.0.2")
        assert await client.asks(LARGE_BYTES) == 7
        assert broker.memory.waiting > 30, "it has not waited for all of the crowd"
        for each in crowd[:2]:
            assert await each.has_ended()
    assert "sends too slowly while others wait for memory (queued.max.request.bytes)" in caplog.text


async def test_nobody_is_closed_while_nobody_waits(authority: Authority) -> None:
    async with serving(authority) as broker:
        (slow,) = await broker.announcing("CLIENTS", 1)
        await broker.until(lambda: broker.memory.used == HUNDRED_MIB)
        assert broker.listeners._memory_sweep is None
        assert not slow.reader.at_eof()


# -- one connection's share --------------------------------------------------------------------


def share_of(memory: RequestMemory) -> tuple[MemoryWait, FrameReceiver]:
    receiver = FrameReceiver(HUNDRED_MIB)
    receiver.memory = memory
    return MemoryWait(receiver, 1, lambda: None), receiver


def receive(receiver: FrameReceiver, content: bytes) -> None:
    while content:
        window = receiver.writable()
        count = min(len(window), len(content))
        window[:count] = content[:count]
        content = content[count:]
        receiver.received(count)


def test_a_sender_has_time_by_what_it_has_sent() -> None:
    share, receiver = share_of(RequestMemory(LARGE_BYTES, lambda: 1))
    assert not share.is_too_slow(10**18), "it holds nothing"
    receive(receiver, frame_size_prefix(LARGE_BYTES) + b"\0")
    began_ns = 10**9
    share.count((), began_ns, False)
    assert not share.is_too_slow(began_ns + GRACE_MS * 10**6)
    assert share.is_too_slow(began_ns + (GRACE_MS + 1) * 10**6)
    receive(receiver, bytes(LARGE_BYTES // 2))
    half_ns = HOLD_MS_MAX // 2 * 10**6
    assert not share.is_too_slow(began_ns + half_ns)
    assert share.is_too_slow(began_ns + half_ns + 10**8)
    receive(receiver, bytes(LARGE_BYTES - LARGE_BYTES // 2 - 1))
    share.count((), began_ns + half_ns, False)
    assert not share.is_too_slow(began_ns + 100 * half_ns), "it is served"


def test_a_request_that_waits_for_another_limit_is_not_held_for_ever() -> None:
    memory = RequestMemory(LARGE_BYTES, lambda: 1)
    share, receiver = share_of(memory)
    receive(receiver, frame_size_prefix(LARGE_BYTES) + bytes(LARGE_BYTES))
    share.count((memoryview(bytes(LARGE_BYTES)), memoryview(bytes(10))), 1, True)
    assert memory.used == LARGE_BYTES + 10
    assert not share.is_too_slow(HOLD_MS_MAX * 10**6)
    assert share.is_too_slow((HOLD_MS_MAX + 1) * 10**6 + 1)


async def test_a_connection_that_is_not_read_holds_no_memory_for_what_has_just_begun() -> None:
    memory = RequestMemory(LARGE_BYTES, lambda: 1)
    share, receiver = share_of(memory)
    content = bytes(range(256)) * (LARGE_BYTES // 256)
    receive(receiver, frame_size_prefix(len(content)) + content[:10_000])
    assert memory.used == len(content)
    assert not share.count((), 1, True)
    assert memory.used == 0
    assert receiver.wanted == len(content)
    assert not share.count((), 2, False), "memory is left"
    assert memory.used == len(content)
    receive(receiver, content[10_000:200_000])
    share.count((), 3, True)
    assert memory.used == len(content), "so much was sent that it is kept"
    window = receiver.writable()
    window[: len(content) - 200_000] = content[200_000:]
    (frame,) = receiver.received(len(content) - 200_000)
    assert bytes(frame) == content
    receiver.settle(0)
    assert memory.take(LARGE_BYTES)
    receive(receiver, frame_size_prefix(len(content)) + content[:100])
    assert share.count((), 4, False)
    assert memory.waiting == 1
    share.end()
    assert memory.waiting == 0
    assert memory.used == LARGE_BYTES


async def test_the_copy_of_a_request_is_counted_until_its_task_is_done() -> None:
    memory = RequestMemory(100, lambda: 1)
    share, _ = share_of(memory)
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    share.keep(70, done)
    share.end()
    assert memory.used == 70
    done.cancel()
    await asyncio.sleep(0)
    assert memory.used == 0
