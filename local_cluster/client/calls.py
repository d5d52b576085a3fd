"""How a call finds its broker: connections, metadata, the controller, group coordinators.

One connection per broker, opened on first use and again after it broke. Calls to the controller
and to coordinators follow them when they move, with bounded retries; nothing else is retried,
because the callers know what a lost answer means for them.

A broker may come back under another address, and another one may have taken its old one. So before
a broker is dialled again, a broker that answers is asked where it is now.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_delay,
    wait_random_exponential,
)

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from local_cluster.client.connection import Connection, connect
from local_cluster.client.last_answer import LastAnswer
from local_cluster.client.model import BrokerAddress, ClusterMetadata
from local_cluster.wire import metadata as metadata_codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import GROUP_KEY_TYPE
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import Fields, get

RETRY_SECONDS_MAX: Final = 20.0
"""How long an admin call follows a moving controller or coordinator."""
RETRY_WAIT_SECONDS_MAX: Final = 1.0
ADDRESS_SECONDS_MAX: Final = 2.0
"""How long a broker whose connection was lost is not dialled while it is asked where it is now."""

_MOVED: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_controller,
        ErrorCode.network_exception,
    }
)


class ClusterCalls:
    """The brokers of one cluster, from a bootstrap list "host:port,host:port"."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "heliograph",
        request_timeout_ms: int = 30_000,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        self._bootstrap = [parse_address(part) for part in bootstrap.split(",") if part.strip()]
        if not self._bootstrap:
            raise ValueError("bootstrap names no address")
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._security = security
        self._connections: dict[int, Connection] = {}
        self._dialing: dict[int, asyncio.Lock] = {}
        """By broker. Held while any broker is asked where it is, so `_dialing_any` comes after."""
        self._dialing_any = asyncio.Lock()
        self._brokers: dict[int, BrokerAddress] = {}
        self._unreached: set[int] = set()
        """Brokers that could not be connected to where they are said to be."""
        self._controller_id = -1
        self._coordinators: dict[str, int] = {}
        self._any: Connection | None = None
        self._closed = False

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
        """Close every connection; requests in flight fail with NETWORK_EXCEPTION."""
        self._closed = True
        connections = [*self._connections.values(), *([self._any] if self._any else [])]
        self._connections.clear()
        self._any = None
        for connection in connections:
            await connection.close()

    # -- any call ---------------------------------------------------------------------------

    async def call(
        self,
        api: ApiKey,
        fields: Fields,
        *,
        node_id: int | None = None,
        version_max: int | None = None,
        timeout_ms: int | None = None,
        last: LastAnswer | None = None,
    ) -> Any:
        """One request to a broker (None: any), kio's response object back.

        `last` goes with a question that is asked again and again.
        Raises KafkaError(network_exception | request_timed_out | unsupported_version).
        """
        connection = await self._connection(node_id)
        return await self._bounded(
            connection, connection.call(api, fields, version_max, last), timeout_ms
        )

    async def call_coordinator(
        self,
        group_id: str,
        api: ApiKey,
        fields: Fields,
        *,
        version_max: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """One request to the group's coordinator, found first and followed when it moves.

        The response's top-level error decides; errors inside partitions are the caller's.
        Raises KafkaError for any other top-level error.
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

        return await retrying(attempt)

    async def call_controller(
        self, api: ApiKey, fields: Fields, *, timeout_ms: int | None = None
    ) -> Any:
        """One request to the controller, followed when it moves. Raises KafkaError."""

        async def attempt() -> Any:
            if self._controller_id not in self._brokers:
                await self.metadata([])
            node_id = self._controller_id if self._controller_id in self._brokers else None
            try:
                response = await self.call(api, fields, node_id=node_id, timeout_ms=timeout_ms)
                code = _first_error(response)
                if code in _MOVED:
                    raise KafkaError(code, "the controller moved")
            except KafkaError as error:
                if error.code in _MOVED:
                    self._controller_id = -1
                raise
            return response

        return await retrying(attempt)

    # -- the cluster -----------------------------------------------------------------

    async def metadata(
        self,
        topics: Sequence[str] | None = None,
        *,
        allow_auto_topic_creation: bool = False,
        node_id: int | None = None,
        last: ClusterMetadata | None = None,
    ) -> ClusterMetadata:
        """Metadata of the named topics (None: all) as a broker knows it (None: any).

        `last` is a former answer. Where this one says the same of the topics it is not decoded
        again, and `topics` is the very object that was given then: to ask again and again costs
        next to nothing while nothing changes. Raises KafkaError.
        """
        found = await self.ask_metadata(
            topics,
            allow_auto_topic_creation=allow_auto_topic_creation,
            node_id=node_id,
            last=last,
        )
        self._learn(found.brokers, found.controller_id)
        return found

    async def ask_metadata(
        self,
        topics: Sequence[str] | None,
        *,
        allow_auto_topic_creation: bool = False,
        node_id: int | None = None,
        last: ClusterMetadata | None = None,
    ) -> ClusterMetadata:
        """As `metadata`, but this client goes on to find brokers as it did before."""
        connection = await self._connection(node_id)
        version = connection.choose_version(ApiKey.METADATA)
        if version < metadata_codec.VERSION_MIN:
            raise KafkaError(ErrorCode.unsupported_version, "Metadata v0 names no controller")
        body = metadata_codec.encode_request(
            version, topics, allow_auto_topic_creation=allow_auto_topic_creation
        )
        sent = connection.send(ApiKey.METADATA, version, (body,))
        frame, position = await self._bounded(connection, sent, None)
        head = metadata_codec.decode_head(version, frame, position)
        # The version is part of what is compared: it says how the bytes are to be read.
        encoded = bytes((version,)) + frame[head.topics_position :]
        if last is not None and last.topics_encoded == encoded:
            found, encoded = last.topics, last.topics_encoded
        else:
            error, found = metadata_codec.decode_topics(version, memoryview(encoded)[1:])
            if error:
                raise KafkaError(error, "Metadata")
        brokers = {broker.node_id: broker for broker in head.brokers}
        return ClusterMetadata(head.cluster_id, head.controller_id, brokers, found, encoded)

    # -- connections ------------------------------------------------------------------------

    async def connection(self, node_id: int) -> Connection:
        """The open connection to a broker, for callers that pipeline by themselves."""
        return await self._connection(node_id)

    async def _connection(self, node_id: int | None) -> Connection:
        if self._closed:
            raise KafkaError(ErrorCode.network_exception, "the client is closed")
        if node_id is None:
            return await self._any_connection()
        found = self._connections.get(node_id)
        if found is not None and not found.is_closed:
            return found
        async with self._dialing.setdefault(node_id, asyncio.Lock()):
            found = self._connections.get(node_id)
            if found is not None and not found.is_closed:
                return found
            if node_id not in self._brokers or node_id in self._unreached:
                await self.metadata([])
            elif found is not None:
                await self._look_for_moved()
            address = self._brokers.get(node_id)
            if address is None:
                raise KafkaError(ErrorCode.network_exception, f"broker {node_id} is not known")
            self._unreached.add(node_id)
            connection = await self._dial(address.host, address.port)
            self._unreached.discard(node_id)
            self._connections[node_id] = connection
            return connection

    async def _look_for_moved(self) -> None:
        """Learn where the brokers are now, if somebody says so soon: mostly none has moved, and a
        broker that hangs must not keep this client from another one."""
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(ADDRESS_SECONDS_MAX):
                await self.metadata([])

    async def _any_connection(self) -> Connection:
        for connection in self._connections.values():
            if not connection.is_closed:
                return connection
        async with self._dialing_any:
            if self._any is not None and not self._any.is_closed:
                return self._any
            addresses = [(broker.host, broker.port) for broker in self._brokers.values()]
            random.shuffle(addresses)
            failure: KafkaError | None = None
            for host, port in dict.fromkeys([*self._bootstrap, *addresses]):
                try:
                    self._any = await self._dial(host, port)
                    return self._any
                except KafkaError as error:
                    failure = error
            assert failure is not None, "the bootstrap list is never empty"
            raise failure

    async def _dial(self, host: str, port: int) -> Connection:
        return await connect(
            host,
            port,
            client_id=self._client_id,
            timeout_ms=self._request_timeout_ms,
            security=self._security,
        )

    async def _bounded(self, connection: Connection, sent: Any, timeout_ms: int | None) -> Any:
        limit_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                return await sent
        except TimeoutError as error:
            reason = f"{connection.peer} does not answer within {limit_ms} ms"
            connection.abort(reason)
            raise KafkaError(ErrorCode.request_timed_out, reason) from error

    def _learn(self, brokers: Mapping[int, BrokerAddress], controller_id: int) -> None:
        for node_id, address in self._brokers.items():
            moved = node_id in brokers and brokers[node_id][1:3] != address[1:3]
            if moved and node_id in self._connections:
                self._connections.pop(node_id).abort("the broker has a new address")
        self._brokers = dict(brokers)
        self._controller_id = controller_id

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
            self._learn({**self._brokers, found.node_id: found}, self._controller_id)
            self._coordinators[group_id] = found.node_id
        return self._coordinators[group_id]


def parse_address(text: str) -> tuple[str, int]:
    """ "host:port" or "[v6]:port". Raises ValueError."""
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"{text!r} is not host:port")
    return host.strip("[]"), int(port)


def _first_error(response: Any) -> ErrorCode:
    """The top-level error; of per-group answers a moved coordinator, of per-topic ones a
    NOT_CONTROLLER among them."""
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


async def retrying(attempt: Any) -> Any:
    """Await `attempt()` until it does not say that its broker moved. Raises KafkaError."""
    again = retry_if_exception(lambda e: isinstance(e, KafkaError) and e.code in _MOVED)
    retry = AsyncRetrying(
        retry=again,
        stop=stop_after_delay(RETRY_SECONDS_MAX),
        wait=wait_random_exponential(multiplier=0.05, max=RETRY_WAIT_SECONDS_MAX),
        reraise=True,
    )
    return await retry(attempt)
