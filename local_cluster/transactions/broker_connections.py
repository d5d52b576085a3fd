"""One connection to each other broker, for calls to coordinators and partition leaders."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

from local_cluster.coordinator_runtime.ports import CoordinatorBroker
from local_cluster.network import ConnectToPeer, PeerConnection, connect_to_peer
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError

CALL_TIMEOUT_MS: Final = 30_000


class BrokerCalls(Protocol):
    """Requests to other brokers."""

    async def call(self, broker_id: int, api: ApiKey, fields: messages.Fields, version: int) -> Any:
        """Return kio's response. Raises KafkaError (network_exception, request_timed_out, ...)."""
        ...


class BrokerConnections:
    """Connections by broker id, opened at first use. Calls to one broker are sent in order."""

    def __init__(self, broker: CoordinatorBroker, connect: ConnectToPeer = connect_to_peer) -> None:
        self._broker = broker
        self._connect = connect
        self._connections: dict[int, PeerConnection] = {}
        self._opening: dict[int, asyncio.Lock] = {}

    async def call(self, broker_id: int, api: ApiKey, fields: messages.Fields, version: int) -> Any:
        frame, position = await self._send(
            broker_id, api, version, messages.encode_request(api, version, fields)
        )
        try:
            return messages.decode_response(api, version, frame, position)
        except PeerError as error:
            self._connections[broker_id].abort(f"unreadable response: {error}")
            raise _unreadable(broker_id, error) from error

    async def call_raw(self, broker_id: int, api: ApiKey, body: bytes) -> bytes:
        """Send a private request at version 0, and return the body of the response.

        Raises as `call` does.
        """
        frame, position = await self._send(broker_id, api, 0, body)
        return bytes(frame[position:])

    async def _send(
        self, broker_id: int, api: ApiKey, version: int, body: bytes
    ) -> tuple[memoryview, int]:
        async with self._opening.setdefault(broker_id, asyncio.Lock()):
            connection = self._connections.get(broker_id)
            if connection is None or connection.is_closed:
                connection = self._connections[broker_id] = await self._open(broker_id)
            # Sent under the lock, which keeps the order of the calls.
            response = connection.send(api, version, (body,))
        try:
            async with asyncio.timeout(CALL_TIMEOUT_MS / 1000):
                return await response
        except TimeoutError:
            connection.abort("no response in time")
            raise KafkaError(
                ErrorCode.request_timed_out, f"no response of broker {broker_id} in time"
            ) from None
        except PeerError as error:
            connection.abort(f"unreadable response: {error}")
            raise _unreadable(broker_id, error) from error

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            connection.abort("the broker stops")

    async def _open(self, broker_id: int) -> PeerConnection:
        listener = self._broker.settings.inter_broker_listener
        endpoints = self._broker.metadata.brokers.get(broker_id)
        address = None if endpoints is None else endpoints.listeners.get(listener)
        if address is None:
            raise KafkaError(
                ErrorCode.broker_not_available,
                f"broker {broker_id} has no address on listener {listener}",
            )
        return await self._connect(*address)


def _unreadable(broker_id: int, error: PeerError) -> KafkaError:
    return KafkaError(
        ErrorCode.network_exception, f"unreadable response of broker {broker_id}: {error}"
    )
