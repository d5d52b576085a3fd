"""SHELL: requests between brokers over the inter-broker listener, in both directions.

controller -> broker   CLUSTER_DELTA
broker -> controller   AlterPartition, HAND_OVER, CreateTopics
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from local_cluster.controller.model import isr_proposals
from local_cluster.controller.model.cluster_image import BrokerEndpoints, ClusterDelta
from local_cluster.controller.model.delta_json import (
    Reply,
    decode_reply,
    encode_delta,
    encode_hand_over,
)
from local_cluster.controller.model.isr_proposals import IsrProposal, IsrResult
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.controller.model.topic_requests import TopicSpec
from local_cluster.network import ConnectToPeer, PeerConnection
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

PUSH_TIMEOUT_MS: Final = 30_000
"""A broker may have to open many logs before it answers."""
CREATE_TOPICS_VERSION: Final = 7


class BrokerConnection:
    """A connection from the controller to one broker."""

    def __init__(self, connection: PeerConnection) -> None:
        self._connection = connection

    @property
    def is_closed(self) -> bool:
        return self._connection.is_closed

    async def push(self, delta: ClusterDelta) -> Reply:
        """Return the broker's response. Raises KafkaError, or ValueError if it is unreadable."""
        try:
            async with asyncio.timeout(PUSH_TIMEOUT_MS / 1000):
                frame, position = await self._connection.send(
                    ApiKey.CLUSTER_DELTA, 0, (encode_delta(delta),)
                )
        except TimeoutError:
            raise KafkaError(
                ErrorCode.request_timed_out, f"no response to a delta within {PUSH_TIMEOUT_MS} ms"
            ) from None
        return decode_reply(bytes(frame[position:]))

    def abort(self) -> None:
        self._connection.abort("publishing failed or ended")

    def when_closed(self, callback: Callable[[], None]) -> None:
        self._connection.when_closed(callback)


async def connect_to_broker(
    broker: BrokerEndpoints, listener: str, *, connect: ConnectToPeer
) -> BrokerConnection:
    """Connect to a broker. Raises KafkaError."""
    return BrokerConnection(await connect(*_address(broker, listener)))


async def create_topic_at(
    controller: BrokerEndpoints,
    listener: str,
    spec: TopicSpec,
    timeout_ms: int,
    *,
    connect: ConnectToPeer,
) -> KafkaError | None:
    """Send CreateTopics to the controller; return its error. Raises KafkaError if it fails."""
    connection = await connect(*_address(controller, listener))
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
    api, version = ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION
    body = messages.encode_request(api, version, fields)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            frame, position = await connection.send(api, version, (body,))
    except TimeoutError:
        raise KafkaError(ErrorCode.request_timed_out, "the controller does not answer") from None
    finally:
        connection.abort("the topic was asked for")
    (result,) = messages.decode_response(api, version, frame, position).topics
    if result.error_code == ErrorCode.none:
        return None
    return KafkaError(result.error_code, result.error_message or "")


def _address(broker: BrokerEndpoints, listener: str) -> tuple[str, int]:
    if listener not in broker.listeners:
        raise KafkaError(
            ErrorCode.listener_not_found, f"broker {broker.id} does not advertise {listener}"
        )
    return broker.listeners[listener]


class ControllerConnection:
    """A broker's connection to the controller; opened on demand, kept while it works."""

    def __init__(self, cache: MetadataCache, listener: str, connect: ConnectToPeer) -> None:
        self._connect = connect
        self._cache = cache
        self._listener = listener
        self._connection: PeerConnection | None = None
        self._controller: BrokerEndpoints | None = None
        self._lock = asyncio.Lock()

    async def alter_partitions(
        self,
        broker_id: int,
        broker_epoch: int,
        proposals: Sequence[IsrProposal],
        replicas: Mapping[tuple[uuid.UUID, int], tuple[int, ...]],
        timeout_ms: int,
    ) -> list[IsrResult]:
        """Send AlterPartition; return one result per proposal. Raises KafkaError."""
        fields = isr_proposals.request_fields(broker_id, broker_epoch, proposals)
        version = isr_proposals.VERSION
        body = messages.encode_request(ApiKey.ALTER_PARTITION, version, fields)
        frame, position = await self._call(ApiKey.ALTER_PARTITION, version, body, timeout_ms)
        response = messages.decode_response(ApiKey.ALTER_PARTITION, version, frame, position)
        return isr_proposals.read_response(response, proposals, replicas)

    async def request_shutdown(self, broker_id: int, broker_epoch: int, timeout_ms: int) -> None:
        """Send HAND_OVER, the request for a controlled shutdown. Raises KafkaError."""
        frame, position = await self._call(
            ApiKey.HAND_OVER, 0, encode_hand_over(broker_id, broker_epoch), timeout_ms
        )
        reply = decode_reply(bytes(frame[position:]))
        if reply.error_code != ErrorCode.none:
            raise KafkaError(reply.error_code, reply.message)

    def close(self) -> None:
        """Drop the connection; the next request opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort("no longer used")

    async def _call(
        self, api: ApiKey, version: int, body: bytes, timeout_ms: int
    ) -> tuple[memoryview, int]:
        """Return the response frame and the position of its body.

        Raises KafkaError: not_controller if no controller is known, network_exception,
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

    async def _open(self) -> PeerConnection:
        controller = self._cache.brokers.get(self._cache.controller_id)
        if controller is None:
            raise KafkaError(ErrorCode.not_controller, "no controller is known")
        if self._connection is None or self._connection.is_closed or self._controller != controller:
            self.close()
            self._connection = await self._connect(*_address(controller, self._listener))
            self._controller = controller
        return self._connection
