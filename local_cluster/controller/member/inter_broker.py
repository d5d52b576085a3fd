"""Calls between brokers, over the inter-broker listener: push a delta, ask the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from local_cluster.client.connection import connect
from local_cluster.controller.model.cluster_image import BrokerEndpoints, ClusterDelta
from local_cluster.controller.model.delta_json import Reply, decode_reply, encode_delta
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.controller.model.topic_requests import TopicSpec
from local_cluster.network import CLIENT_ID, ConnectToPeer, PeerConnection
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

PUSH_TIMEOUT_MS: Final = 30_000
"""A broker may have to open many logs before it answers."""


class BrokerLine:
    """A line from the controller to one broker."""

    def __init__(self, connection: PeerConnection) -> None:
        self._connection = connection

    @property
    def is_closed(self) -> bool:
        return self._connection.is_closed

    async def push(self, delta: ClusterDelta) -> Reply:
        """The broker's answer. Raises KafkaError, or ValueError where it is no answer."""
        try:
            async with asyncio.timeout(PUSH_TIMEOUT_MS / 1000):
                frame, position = await self._connection.send(
                    ApiKey.CLUSTER_DELTA, 0, (encode_delta(delta),)
                )
        except TimeoutError:
            raise KafkaError(ErrorCode.request_timed_out, "a push was not answered") from None
        return decode_reply(bytes(frame[position:]))

    def abort(self) -> None:
        self._connection.abort("publishing failed or ended")

    def when_closed(self, callback: Callable[[], None]) -> None:
        self._connection.when_closed(callback)


async def open_broker_line(
    broker: BrokerEndpoints, listener: str, *, open_line: ConnectToPeer
) -> BrokerLine:
    """Connect to a broker. Raises KafkaError."""
    return BrokerLine(await open_line(*_address(broker, listener)))


async def create_topic_at(
    controller: BrokerEndpoints, listener: str, spec: TopicSpec, timeout_ms: int
) -> KafkaError | None:
    """What the controller says to CreateTopics. Raises KafkaError where it cannot be asked."""
    connection = await connect(
        *_address(controller, listener), client_id=CLIENT_ID, timeout_ms=timeout_ms
    )
    fields = {
        "topics": [
            {
                "name": spec.name,
                "num_partitions": spec.partitions,
                "replication_factor": spec.replication_factor,
                "assignments": (),
                "configs": [{"name": k, "value": v} for k, v in spec.configs.items()],
            }
        ],
        "timeout": timeout_ms,
        "validate_only": False,
    }
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            response = await connection.call(ApiKey.CREATE_TOPICS, fields, None)
    except TimeoutError:
        raise KafkaError(ErrorCode.request_timed_out, "the controller does not answer") from None
    finally:
        await connection.close()
    (result,) = response.topics
    if result.error_code == ErrorCode.none:
        return None
    return KafkaError(result.error_code, result.error_message or "")


def _address(broker: BrokerEndpoints, listener: str) -> tuple[str, int]:
    if listener not in broker.listeners:
        raise KafkaError(
            ErrorCode.listener_not_found, f"broker {broker.id} does not advertise {listener}"
        )
    return broker.listeners[listener]


class ControllerLine:
    """A broker's connection to whoever controls; made when it is needed, kept while it works."""

    def __init__(self, cache: MetadataCache, listener: str, open_line: ConnectToPeer) -> None:
        self._open_line = open_line
        self._cache = cache
        self._listener = listener
        self._connection: PeerConnection | None = None
        self._controller: BrokerEndpoints | None = None
        self._lock = asyncio.Lock()

    async def call(
        self, api: ApiKey, version: int, body: bytes, timeout_ms: int
    ) -> tuple[memoryview, int]:
        """The answer's frame and where its body begins.

        Raises KafkaError: not_controller where nobody is known to control, network_exception,
        request_timed_out.
        """
        async with self._lock:
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    connection = await self._open()
                    return await connection.send(api, version, (body,))
            except TimeoutError:
                self.close()
                raise KafkaError(
                    ErrorCode.request_timed_out, "the controller does not answer"
                ) from None

    def close(self) -> None:
        """Drop the connection; the next call makes another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort("no longer used")

    async def _open(self) -> PeerConnection:
        controller = self._cache.brokers.get(self._cache.controller_id)
        if controller is None:
            raise KafkaError(ErrorCode.not_controller, "no controller is known")
        if self._connection is None or self._connection.is_closed or self._controller != controller:
            self.close()
            self._connection = await self._open_line(*_address(controller, self._listener))
            self._controller = controller
        return self._connection
