"""Where the brokers of one cluster listen, and an open connection to each.

There is one connection per broker, opened on first use and again after it broke. A broker may come
back under another address, and another one may have taken its old one. So before a broker is
connected to again, the directory refreshes its addresses from a broker that answers.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

from local_cluster.client.connection import Connection
from local_cluster.client.model import BrokerAddress
from local_cluster.wire.errors import ErrorCode, KafkaError

REFRESH_SECONDS_MAX: Final = 2.0
"""How long a lost broker is not connected to while its address is refreshed."""
UNKNOWN_BROKER: Final = -1

Connect = Callable[[str, int], Awaitable[Connection]]
"""Connect to (host, port). Raises KafkaError."""


class BrokerDirectory:
    """The brokers of one cluster, from a bootstrap list "host:port,host:port"."""

    def __init__(
        self, bootstrap: str, *, connect: Connect, refresh: Callable[[], Awaitable[object]]
    ) -> None:
        """`refresh` reads Metadata and passes it to `update`. Raises ValueError."""
        self._bootstrap = [parse_address(part) for part in bootstrap.split(",") if part.strip()]
        if not self._bootstrap:
            raise ValueError("bootstrap names no address")
        self._connect = connect
        self._refresh = refresh
        self._brokers: dict[int, BrokerAddress] = {}
        self._controller_id = UNKNOWN_BROKER
        self._connections: dict[int, Connection] = {}
        self._any: Connection | None = None
        """A connection to some bootstrap address."""
        self._unreached: set[int] = set()
        """Brokers that could not be connected to at their known address."""
        self._locks: dict[int, asyncio.Lock] = {}
        """By broker. They are held during a refresh, so `_any_lock` is taken after them."""
        self._any_lock = asyncio.Lock()
        self._is_closed = False

    @property
    def controller_id(self) -> int | None:
        """The controller as the last metadata names it, None if it is not a known broker."""
        return self._controller_id if self._controller_id in self._brokers else None

    def update(self, brokers: Mapping[int, BrokerAddress], controller_id: int) -> None:
        """Take over brokers and controller from Metadata. Close connections to old addresses."""
        for node_id, address in self._brokers.items():
            has_moved = node_id in brokers and brokers[node_id][1:3] != address[1:3]
            if has_moved and node_id in self._connections:
                self._connections.pop(node_id).abort("the broker has a new address")
        self._brokers = dict(brokers)
        self._controller_id = controller_id

    def add(self, broker: BrokerAddress) -> None:
        """Take over the address of one broker."""
        self.update({**self._brokers, broker.node_id: broker}, self._controller_id)

    def forget_controller(self) -> None:
        """Forget the controller: it has moved."""
        self._controller_id = UNKNOWN_BROKER

    def find_open(self, node_id: int) -> Connection | None:
        """Return the open connection to a broker, None if there is none."""
        found = self._connections.get(node_id)
        return None if found is None or found.is_closed else found

    async def connection(self, node_id: int | None) -> Connection:
        """Return an open connection to a broker (None: any), and connect first if need be.

        Raises KafkaError(network_exception), and what `connect` raises.
        """
        if self._is_closed:
            raise KafkaError(ErrorCode.network_exception, "the client is closed")
        if node_id is None:
            return await self._any_connection()
        found = self.find_open(node_id)
        if found is not None:
            return found
        async with self._locks.setdefault(node_id, asyncio.Lock()):
            found = self.find_open(node_id)
            if found is not None:
                return found
            return await self._open(node_id)

    async def close(self) -> None:
        """Close every connection. Requests in flight fail with NETWORK_EXCEPTION."""
        self._is_closed = True
        connections = [*self._connections.values(), *([self._any] if self._any else [])]
        self._connections.clear()
        self._any = None
        for connection in connections:
            await connection.close()

    async def _open(self, node_id: int) -> Connection:
        if node_id not in self._brokers or node_id in self._unreached:
            await self._refresh()
        elif node_id in self._connections:
            await self._refresh_briefly()
        address = self._brokers.get(node_id)
        if address is None:
            raise KafkaError(ErrorCode.network_exception, f"broker {node_id} is not known")
        self._unreached.add(node_id)
        connection = await self._connect(address.host, address.port)
        self._unreached.discard(node_id)
        self._connections[node_id] = connection
        return connection

    async def _refresh_briefly(self) -> None:
        """Refresh the addresses if a broker answers soon.

        Usually no broker has moved, and a broker that hangs must not keep this client from others.
        """
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(REFRESH_SECONDS_MAX):
                await self._refresh()

    async def _any_connection(self) -> Connection:
        for connection in self._connections.values():
            if not connection.is_closed:
                return connection
        async with self._any_lock:
            if self._any is not None and not self._any.is_closed:
                return self._any
            addresses = [(broker.host, broker.port) for broker in self._brokers.values()]
            random.shuffle(addresses)
            failure: KafkaError | None = None
            for host, port in dict.fromkeys([*self._bootstrap, *addresses]):
                try:
                    self._any = await self._connect(host, port)
                    return self._any
                except KafkaError as error:
                    failure = error
            assert failure is not None, "the bootstrap list is never empty"
            raise failure


def parse_address(text: str) -> tuple[str, int]:
    """Parse "host:port" or "[v6]:port". Raises ValueError."""
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"{text!r} is not host:port")
    return host.strip("[]"), int(port)
