"""One connection to each other broker, for the calls between coordinators and partition leaders."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from local_cluster.client.connection import Connection, connect
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError
from local_cluster.wire.messages import Fields

if TYPE_CHECKING:
    from local_cluster.handlers.services import BrokerServices

CLIENT_ID: Final = "heliograph-broker"
CONNECT_TIMEOUT_MS: Final = 5_000
CALL_TIMEOUT_MS: Final = 30_000


class BrokerLines:
    """Connections by broker id, opened when first used. Calls to one broker go out in order."""

    def __init__(self, broker: BrokerServices) -> None:
        self._broker = broker
        self._lines: dict[int, Connection] = {}
        self._opening: dict[int, asyncio.Lock] = {}

    async def call(self, broker_id: int, api: ApiKey, fields: Fields, version_max: int) -> Any:
        """kio's response. Raises KafkaError (network_exception, request_timed_out, ...)."""
        async with self._opening.setdefault(broker_id, asyncio.Lock()):
            line = self._lines.get(broker_id)
            if line is None or line.is_closed:
                line = self._lines[broker_id] = await self._open(broker_id)
            # The request is written before the first await, so the lock keeps the order.
            answer = asyncio.ensure_future(line.call(api, fields, version_max))
            await asyncio.sleep(0)
        try:
            async with asyncio.timeout(CALL_TIMEOUT_MS / 1000):
                return await answer
        except TimeoutError:
            line.abort("no answer in time")
            raise KafkaError(ErrorCode.request_timed_out, f"broker {broker_id}") from None
        except PeerError as error:
            line.abort(f"broken answer: {error}")
            raise KafkaError(ErrorCode.network_exception, f"broker {broker_id}: {error}") from error

    async def close(self) -> None:
        """Close every connection."""
        for line in self._lines.values():
            await line.close()

    async def _open(self, broker_id: int) -> Connection:
        listener = self._broker.settings.inter_broker_listener
        endpoints = self._broker.metadata.brokers.get(broker_id)
        address = None if endpoints is None else endpoints.listeners.get(listener)
        if address is None:
            raise KafkaError(ErrorCode.broker_not_available, f"broker {broker_id} is not known")
        return await connect(*address, client_id=CLIENT_ID, timeout_ms=CONNECT_TIMEOUT_MS)
