"""The proxy between endpoints: it carries, cuts in one direction or both, and slows down."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.nemesis.links import (
    CLIENT,
    PACKET_BYTES,
    Link,
    Route,
    Rules,
    both_ways,
    isolated,
    load_rules,
)
from tests.nemesis.proxy import Proxy
from tests.support.quiet_ports import quiet_ports

QUIET_SECONDS = 0.3
"""How long nothing may come where nothing must come."""
WAIT_SECONDS = 60.0


def test_rules_travel_as_a_line() -> None:
    rules = Rules(
        both_ways([("1", "2")]), {Link("1", CLIENT): 100}, {Link("1", "2"): 0.01}, {"1": 4711}
    )
    assert load_rules(rules.dump()) == rules


def test_a_cut_is_directed_and_a_handshake_needs_both() -> None:
    one_way = Rules(frozenset([Link("1", "2")]))
    assert not one_way.passes(Link("1", "2"))
    assert one_way.passes(Link("2", "1"))
    assert not one_way.can_connect(Link("2", "1"))
    assert isolated("1", ["1", "2", "3"]) == both_ways([("1", "2"), ("1", "3")])


def chances(*values: float) -> Callable[[], float]:
    """These in turn, and then nothing is lost."""
    following = iter(values)
    return lambda: next(following, 1.0)


def test_what_is_lost_comes_when_it_was_sent_again() -> None:
    link = Link("1", "2")
    lossy = Rules(delay_ms={link: 100, link.back: 100}, loss={link: 0.01})
    four = 3 * PACKET_BYTES + 1
    assert lossy.arrives_after_ms(link, four, chances()) == 100
    # Three packets behind it tell the sender, a round trip later.
    assert lossy.arrives_after_ms(link, four, chances(0.009)) == 100 + 200
    # It is lost again: a timeout. And again: twice that.
    assert lossy.arrives_after_ms(link, four, chances(0.0, 0.0)) == 100 + 200 + 400
    assert lossy.arrives_after_ms(link, 1, chances(0.0, 0.0)) == 100 + 400 + 800
    # Nothing is behind the last one.
    assert lossy.arrives_after_ms(link, four, chances(1.0, 1.0, 1.0, 0.0)) == 100 + 400
    # Two that are lost are sent again side by side.
    assert lossy.arrives_after_ms(link, four, chances(1.0, 1.0, 0.0, 1.0, 0.0)) == 100 + 400
    assert lossy.arrives_after_ms(link.back, four, chances(0.0)) == 100
    assert lossy.arrives_after_ms(link, 0, chances(0.0)) == 100


@asynccontextmanager
async def echo_behind(proxy: Proxy, source: str) -> AsyncIterator[int]:
    """The port of a proxy's route to a server that says everything back."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(1024):
            writer.write(chunk)
        writer.close()

    listen, target = quiet_ports(2)
    server = await asyncio.start_server(echo, "127.0.0.1", target)
    await proxy.listen(Route(listen, target, source, "2"))
    async with server:
        yield listen


async def says(reader: asyncio.StreamReader, expected: bytes) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        assert await reader.readexactly(len(expected)) == expected


async def says_nothing(reader: asyncio.StreamReader) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(QUIET_SECONDS):
            await reader.read(1)


@pytest.mark.parametrize("cut", [Link(CLIENT, "2"), Link("2", CLIENT)])
async def test_what_is_cut_off_arrives_after_healing(cut: Link) -> None:
    proxy = Proxy()
    async with echo_behind(proxy, CLIENT) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"before")
        await says(reader, b"before")
        proxy.apply(Rules(frozenset([cut])))
        writer.write(b"meanwhile")
        await says_nothing(reader)
        late_reader, late_writer = await asyncio.open_connection("127.0.0.1", port)
        late_writer.write(b"late")
        await says_nothing(late_reader)
        proxy.apply(Rules())
        await says(reader, b"meanwhile")
        await says(late_reader, b"late")
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), WAIT_SECONDS) == b""
        writer.close()
        late_writer.close()


async def test_a_slow_link_is_slow() -> None:
    proxy = Proxy()
    async with echo_behind(proxy, CLIENT) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        proxy.apply(Rules(delay_ms={Link(CLIENT, "2"): 1_000}))
        writer.write(b"slowly")
        await says_nothing(reader)
        await says(reader, b"slowly")
        writer.close()


async def test_what_a_lossy_link_loses_comes_later() -> None:
    drawn: list[float] = []

    def chance() -> float:
        """The first packet is lost, and none after it."""
        drawn.append(1.0 if drawn else 0.0)
        return drawn[-1]

    proxy = Proxy(chance)
    async with echo_behind(proxy, CLIENT) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        proxy.apply(Rules(delay_ms={Link("2", CLIENT): 1_000}, loss={Link(CLIENT, "2"): 0.5}))
        writer.write(b"lost")
        await says_nothing(reader)
        await says(reader, b"lost")
        assert drawn == [0.0, 1.0]
        writer.close()


async def test_the_connecting_process_tells_who_connects() -> None:
    proxy = Proxy()
    proxy.apply(Rules(pids={"3": os.getpid()}))
    async with echo_behind(proxy, "") as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"a")
        await says(reader, b"a")
        proxy.apply(Rules(isolated("3", ["2"]), pids={"3": os.getpid()}))
        writer.write(b"b")
        await says_nothing(reader)
        proxy.apply(Rules(pids={"3": os.getpid()}))
        await says(reader, b"b")
        writer.close()
