"""One connection to each other broker, for the calls between coordinators and partition leaders."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from local_cluster.network import Line, OpenLine, open_line
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError

if TYPE_CHECKING:
    from local_cluster.transactions.services import TransactionServices

CALL_TIMEOUT_MS: Final = 30_000


class BrokerLines:
    """Connections by broker id, opened when first used. Calls to one broker go out in order."""

    def __init__(self, broker: TransactionServices, open_line: OpenLine = open_line) -> None:
        self._broker = broker
        self._open_line = open_line
        self._lines: dict[int, Line] = {}
        self._opening: dict[int, asyncio.Lock] = {}

    async def call(self, broker_id: int, api: ApiKey, fields: messages.Fields, version: int) -> Any:
        """kio's response. Raises KafkaError (network_exception, request_timed_out, ...)."""
        body = messages.encode_request(api, version, fields)
        async with self._opening.setdefault(broker_id, asyncio.Lock()):
            line = self._lines.get(broker_id)
            if line is None or line.is_closed:
                line = self._lines[broker_id] = await self._open(broker_id)
            # Written here and now, so the lock keeps the order.
            answer = line.send(api, version, (body,))
        try:
            async with asyncio.timeout(CALL_TIMEOUT_MS / 1000):
                frame, position = await answer
            return messages.decode_response(api, version, frame, position)
        except TimeoutError:
            line.abort("no answer in time")
            raise KafkaError(ErrorCode.request_timed_out, f"broker {broker_id}") from None
        except PeerError as error:
            line.abort(f"broken answer: {error}")
            raise KafkaError(ErrorCode.network_exception, f"broker {broker_id}: {error}") from error

    def close(self) -> None:
        """Close every connection."""
        for line in self._lines.values():
            line.abort("the broker stops")

    async def _open(self, broker_id: int) -> Line:
        listener = self._broker.settings.inter_broker_listener
        endpoints = self._broker.metadata.brokers.get(broker_id)
        address = None if endpoints is None else endpoints.listeners.get(listener)
        if address is None:
            raise KafkaError(ErrorCode.broker_not_available, f"broker {broker_id} is not known")
        return await self._open_line(*address)
