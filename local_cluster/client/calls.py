"""How a call finds its broker: any broker, a given one, the controller, or a group coordinator.

Calls to the controller and to coordinators follow them when they move, with bounded retries.
Nothing else is retried: only the caller knows what a lost response means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_delay,
    wait_random_exponential,
)

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from local_cluster.client.broker_directory import BrokerDirectory, Connect
from local_cluster.client.connection import Connection, LastResponse, connect
from local_cluster.client.model import BrokerAddress, ClusterMetadata
from local_cluster.wire import metadata
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import GROUP_KEY_TYPE
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import Fields, get

RETRY_SECONDS_MAX: Final = 20.0
"""How long a call follows a moving controller or coordinator."""
RETRY_WAIT_SECONDS_MAX: Final = 1.0

_MOVED: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_controller,
        ErrorCode.network_exception,
    }
)

_T = TypeVar("_T")


class ClusterCalls:
    """Calls to one cluster. Use it as an async context manager, or `close` it."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "heliograph",
        request_timeout_ms: int = 30_000,
        security: ClientSecurity = PLAINTEXT,
        connect: Connect | None = None,
    ) -> None:
        """`bootstrap` is a list "host:port,host:port". `connect` replaces the real connections.

        `request_timeout_ms` bounds connecting, and each response. Raises ValueError.
        """
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._security = security
        self._directory = BrokerDirectory(
            bootstrap, connect=connect or self._connect, refresh=lambda: self.metadata([])
        )
        self._coordinators: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. Requests in flight fail with NETWORK_EXCEPTION."""
        await self._directory.close()

    async def connection(self, node_id: int | None) -> Connection:
        """Return an open connection to a broker (None: any). Raises KafkaError."""
        return await self._directory.connection(node_id)

    # -- calls ------------------------------------------------------------------------------

    async def call(
        self,
        api: ApiKey,
        fields: Fields,
        *,
        node_id: int | None = None,
        version_max: int | None = None,
        timeout_ms: int | None = None,
        last: LastResponse | None = None,
    ) -> Any:
        """Send one request to a broker (None: any), and return kio's response object.

        `version_max` is the newest version whose fields the caller knows. `last` is the last
        response to the same request: the same bytes are not decoded again.
        Raises KafkaError(network_exception | request_timed_out | unsupported_version).
        """
        connection = await self.connection(node_id)
        response = connection.call(api, fields, version_max, last)
        return await self._await_response(connection, response, timeout_ms)

    async def call_coordinator(
        self,
        group_id: str,
        api: ApiKey,
        fields: Fields,
        *,
        version_max: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """Send one request to a group's coordinator: look it up, and follow it when it moves.

        The caller handles all other errors in the response. Raises KafkaError if the coordinator
        is not found within RETRY_SECONDS_MAX, and as `call` does.
        """

        async def attempt() -> Any:
            node_id = await self._coordinator(group_id)
            try:
                response = await self.call(
                    api, fields, node_id=node_id, version_max=version_max, timeout_ms=timeout_ms
                )
                code = _first_error(response)
                if code in _MOVED:
                    raise KafkaError(code, f"coordinator of group {group_id}")
            except KafkaError as error:
                if error.code in _MOVED:
                    self._coordinators.pop(group_id, None)
                raise
            return response

        return await retry_while_moved(attempt)

    async def call_controller(
        self, api: ApiKey, fields: Fields, *, timeout_ms: int | None = None
    ) -> Any:
        """Send one request to the controller, and follow it when it moves.

        The caller handles all other errors in the response. Raises KafkaError if the controller
        is not found within RETRY_SECONDS_MAX, and as `call` does.
        """

        async def attempt() -> Any:
            if self._directory.controller_id is None:
                await self.metadata([])
            node_id = self._directory.controller_id
            try:
                response = await self.call(api, fields, node_id=node_id, timeout_ms=timeout_ms)
                code = _first_error(response)
                if code in _MOVED:
                    raise KafkaError(code, "the controller has moved")
            except KafkaError as error:
                if error.code in _MOVED:
                    self._directory.forget_controller()
                raise
            return response

        return await retry_while_moved(attempt)

    async def call_controller_raw(self, api: ApiKey, body: bytes) -> bytes:
        """Send a request of ours at version 0 to the controller; return the body of the response.

        Raises KafkaError as `call` does: unsupported_version if the broker does not offer it.
        """
        if self._directory.controller_id is None:
            await self.metadata([])
        try:
            connection = await self.connection(self._directory.controller_id)
            connection.choose_version(api)
            sent = connection.send(api, 0, (body,))
            frame, position = await self._await_response(connection, sent, None)
        except KafkaError:
            # Another broker may be the controller when this is repeated.
            self._directory.forget_controller()
            raise
        return bytes(frame[position:])

    # -- metadata ---------------------------------------------------------------------------

    async def metadata(
        self,
        topics: Sequence[str] | None = None,
        *,
        allow_auto_topic_creation: bool = False,
        node_id: int | None = None,
        last: ClusterMetadata | None = None,
    ) -> ClusterMetadata:
        """Return the metadata of the named topics (None: all) from a broker (None: any).

        `last` is an earlier result. If its topics are the same, they are not decoded again, and
        `topics` is the same object: repeated calls cost next to nothing while nothing changes.
        Raises KafkaError.
        """
        found = await self.ask_metadata(
            topics,
            allow_auto_topic_creation=allow_auto_topic_creation,
            node_id=node_id,
            last=last,
        )
        self._directory.update(found.brokers, found.controller_id)
        return found

    async def ask_metadata(
        self,
        topics: Sequence[str] | None,
        *,
        allow_auto_topic_creation: bool = False,
        node_id: int | None = None,
        last: ClusterMetadata | None = None,
    ) -> ClusterMetadata:
        """As `metadata`, but keep this client's own broker addresses and controller."""
        connection = await self.connection(node_id)
        version = connection.choose_version(ApiKey.METADATA)
        if version < metadata.VERSION_MIN:
            raise KafkaError(ErrorCode.unsupported_version, "Metadata v0 names no controller")
        body = metadata.encode_request(
            version, topics, allow_auto_topic_creation=allow_auto_topic_creation
        )
        sent = connection.send(ApiKey.METADATA, version, (body,))
        frame, position = await self._await_response(connection, sent, None)
        head = metadata.decode_head(version, frame, position)
        # The version is compared too, because it decides how the bytes are read.
        encoded = bytes((version,)) + frame[head.topics_position :]
        if last is not None and last.topics_encoded == encoded:
            found, encoded = last.topics, last.topics_encoded
        else:
            error, found = metadata.decode_topics(version, memoryview(encoded)[1:])
            if error:
                raise KafkaError(error, "Metadata")
        brokers = {broker.node_id: broker for broker in head.brokers}
        return ClusterMetadata(head.cluster_id, head.controller_id, brokers, found, encoded)

    # -- inside -----------------------------------------------------------------------------

    async def _connect(self, host: str, port: int) -> Connection:
        return await connect(
            host,
            port,
            client_id=self._client_id,
            timeout_ms=self._request_timeout_ms,
            security=self._security,
        )

    async def _await_response(
        self, connection: Connection, response: Awaitable[_T], timeout_ms: int | None
    ) -> _T:
        """Await a response for `timeout_ms` (None: the client's). A late one closes the connection.

        Raises KafkaError(request_timed_out).
        """
        limit_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                return await response
        except TimeoutError as error:
            reason = f"{connection.peer} does not answer within {limit_ms} ms"
            connection.abort(reason)
            raise KafkaError(ErrorCode.request_timed_out, reason) from error

    async def _coordinator(self, group_id: str) -> int:
        if group_id not in self._coordinators:
            response = await self.call(
                ApiKey.FIND_COORDINATOR,
                {"key": group_id, "key_type": GROUP_KEY_TYPE},
                version_max=3,
            )
            if response.error_code:
                raise KafkaError(response.error_code, f"FindCoordinator of {group_id}")
            found = BrokerAddress(int(response.node_id), response.host, int(response.port))
            self._directory.add(found)
            self._coordinators[group_id] = found.node_id
        return self._coordinators[group_id]


def _first_error(response: Any) -> ErrorCode:
    """Return the top-level error, else the first error that shows that the broker has moved."""
    code = get(response, "error_code", ErrorCode.none)
    if code:
        return ErrorCode(code)
    for group in get(response, "groups", None) or ():
        if get(group, "error_code", 0) in _MOVED:
            return ErrorCode(group.error_code)
    for field in ("topics", "responses", "results"):
        for entry in get(response, field, None) or ():
            if get(entry, "error_code", 0) == ErrorCode.not_controller:
                return ErrorCode.not_controller
            for partition in get(entry, "partitions", None) or ():
                if get(partition, "error_code", 0) in _MOVED:
                    return ErrorCode(partition.error_code)
    return ErrorCode.none


async def retry_while_moved(attempt: Callable[[], Awaitable[_T]]) -> _T:
    """Repeat `attempt` while it fails because its broker has moved, for RETRY_SECONDS_MAX.

    Raises KafkaError.
    """
    retry = AsyncRetrying(
        retry=retry_if_exception(lambda e: isinstance(e, KafkaError) and e.code in _MOVED),
        stop=stop_after_delay(RETRY_SECONDS_MAX),
        wait=wait_random_exponential(multiplier=0.05, max=RETRY_WAIT_SECONDS_MAX),
        reraise=True,
    )
    return await retry(attempt)
