"""One connection to one broker: pipelined requests, answered in order.

Requests are written in the order of the calls to `send`, before the first await, so a caller
that calls twice in a row knows their order on the wire. Versions are negotiated once by
ApiVersions. Any trouble closes the connection and fails every request in flight with
NETWORK_EXCEPTION: what became of them is unknown, and the caller must find out.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from local_cluster.client.auth.sasl import authenticate
from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity, SecurityError
from local_cluster.client.frame_buffers import buffers_of_this_loop
from local_cluster.client.last_answer import LastAnswer
from local_cluster.wire import header as headers
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError
from local_cluster.wire.frame import FrameReceiver, frame_size_prefix

RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
IN_FLIGHT_MAX: Final = 1000
CLIENT_SOFTWARE_NAME: Final = "heliograph"
CLIENT_SOFTWARE_VERSION: Final = "0.1.0"

Part = bytes | bytearray | memoryview


class RefusedError(KafkaError):
    """Nobody listens there: the host says so, and so the process is gone, or not up yet."""


class Connection(asyncio.BufferedProtocol):
    """A connected peer; make one with `connect`."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._receiver = FrameReceiver(RESPONSE_BYTES_MAX, buffers_of_this_loop())
        self._correlation_ids = itertools.count(1)
        self._pending: deque[tuple[int, int, int, asyncio.Future[tuple[memoryview, int]]]] = deque()
        self._transport: asyncio.Transport | None = None
        self._closed: KafkaError | None = None
        self._lost = asyncio.get_running_loop().create_future()
        self._on_closed: Callable[[], None] | None = None
        self.versions: dict[int, tuple[int, int]] = {}

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    @property
    def peer(self) -> str:
        """The address of the other side, for messages."""
        address = self._transport.get_extra_info("peername") if self._transport else None
        return f"{address[0]}:{address[1]}" if address else "the broker"

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answer."""
        return len(self._pending)

    # -- asyncio's side ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.writable()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._receiver.received(nbytes):
                self._answer(frame)
        except PeerError as error:
            self._fail(f"broken answer: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"connection lost: {exc}" if exc else "connection closed by the peer")
        if not self._lost.done():
            self._lost.set_result(None)

    # -- the caller's side ------------------------------------------------------------------

    def send(
        self, api: ApiKey, version: int, body: Sequence[Part]
    ) -> asyncio.Future[tuple[memoryview, int]]:
        """Write a request; the future gives (frame, position of the body).

        Raises KafkaError(network_exception) on a closed connection or above IN_FLIGHT_MAX.
        """
        return self._write(api, version, body)

    def send_unanswered(self, api: ApiKey, version: int, body: Sequence[Part]) -> None:
        """Write a request that the broker does not answer (Produce with acks=0)."""
        self._write_frame(api, version, next(self._correlation_ids), body)

    async def call(
        self,
        api: ApiKey,
        fields: messages.Fields,
        version_max: int | None,
        last: LastAnswer | None = None,
    ) -> Any:
        """Send a mapping of fields at the best version, wait for kio's response object; see
        `LastAnswer` for `last`."""
        version = self.choose_version(api, version_max)
        body = messages.encode_request(api, version, fields)
        frame, position = await self.send(api, version, (body,))
        if last is not None:
            return last.decode(api, version, frame, position)
        return messages.decode_response(api, version, frame, position)

    def choose_version(self, api: ApiKey, version_max: int | None = None) -> int:
        """The newest version that broker and caller know; a caller that says nothing knows the
        fields of CLIENT_VERSIONS_MAX.

        Raises KafkaError(unsupported_version) where there is none.
        """
        if api not in self.versions:
            raise KafkaError(ErrorCode.unsupported_version, f"the broker has no {api.name}")
        low, high = self.versions[api]
        ours = CLIENT_VERSIONS_MAX.get(api, 0) if version_max is None else version_max
        version = min(high, ours)
        if version < low:
            raise KafkaError(
                ErrorCode.unsupported_version, f"{api.name} v{low}-v{high} is too new for v{ours}"
            )
        return version

    def has_version(self, api: ApiKey, version: int) -> bool:
        """Whether the broker knows this version."""
        low, high = self.versions.get(api, (0, -1))
        return low <= version <= high

    async def negotiate(self) -> None:
        """Ask ApiVersions and keep the answer. Raises KafkaError."""
        fields = {
            "client_software_name": CLIENT_SOFTWARE_NAME,
            "client_software_version": CLIENT_SOFTWARE_VERSION,
        }
        for version in (3, 0):
            body = messages.encode_request(ApiKey.API_VERSIONS, version, fields)
            frame, position = await self.send(ApiKey.API_VERSIONS, version, (body,))
            error_code = int.from_bytes(frame[position : position + 2], "big", signed=True)
            if error_code == ErrorCode.unsupported_version and version:
                continue  # KIP-511: the answer had a v0 body, and so will the next question
            response = messages.decode_response(ApiKey.API_VERSIONS, version, frame, position)
            if response.error_code:
                raise KafkaError(response.error_code, "ApiVersions refused")
            self.versions = {
                int(entry.api_key): (int(entry.min_version), int(entry.max_version))
                for entry in response.api_keys
            }
            return

    async def close(self) -> None:
        """Close, fail what is in flight, and wait until the socket is gone."""
        self._fail("closed by this side")
        if self._transport is not None:
            await self._lost

    def abort(self, reason: str) -> None:
        """Drop the connection at once: after a time-out its answers can't be trusted."""
        self._fail(reason)

    def when_closed(self, callback: Callable[[], None]) -> None:
        """Call this when it is closed, by whichever side; at once where it is. One caller asks."""
        self._on_closed = callback
        if self.is_closed:
            callback()

    # -- inside -----------------------------------------------------------------------------

    def _write(
        self, api: ApiKey, version: int, body: Sequence[Part]
    ) -> asyncio.Future[tuple[memoryview, int]]:
        if len(self._pending) >= IN_FLIGHT_MAX:
            raise KafkaError(
                ErrorCode.network_exception, f"{IN_FLIGHT_MAX} requests are in flight already"
            )
        correlation_id = next(self._correlation_ids) & 0x7FFFFFFF
        self._write_frame(api, version, correlation_id, body)
        future: asyncio.Future[tuple[memoryview, int]] = asyncio.get_running_loop().create_future()
        self._pending.append((correlation_id, api, version, future))
        return future

    def _write_frame(
        self, api: ApiKey, version: int, correlation_id: int, body: Sequence[Part]
    ) -> None:
        if self._closed is not None:
            raise KafkaError(self._closed.code, self._closed.message)
        assert self._transport is not None
        header = headers.encode_request_header(api, version, correlation_id, self._client_id)
        size = len(header) + sum(len(part) for part in body)
        self._transport.writelines([frame_size_prefix(size) + header, *body])

    def _answer(self, frame: memoryview) -> None:
        if not self._pending:
            raise PeerError("an answer that nobody asked for")
        expected, api, version, future = self._pending.popleft()
        correlation_id, position = headers.read_response_header(api, version, frame)
        if correlation_id != expected:
            raise PeerError(f"answer to request {correlation_id}, {expected} was expected")
        if not future.done():
            future.set_result((frame, position))

    def _fail(self, reason: str) -> None:
        if self._closed is not None:
            return
        self._closed = KafkaError(ErrorCode.network_exception, reason)
        pending, self._pending = self._pending, deque()
        for *_, future in pending:
            if not future.done():
                future.set_exception(KafkaError(ErrorCode.network_exception, reason))
                future.exception()  # a caller that gave up must not leave a warning behind
        if self._transport is not None:
            self._transport.abort()
        if self._on_closed is not None:
            self._on_closed()


CLIENT_VERSIONS_MAX: Final[dict[int, int]] = {
    ApiKey.PRODUCE: 11,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 11,
    ApiKey.METADATA: 13,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 7,
    ApiKey.FIND_COORDINATOR: 3,
    # Up to v8 a static leader that returns is not told that it leads, and rejoins where it knows
    # of more than was assigned. From v9 on it is, with skip_assignment (KIP-814): what reads that
    # has to come first, or the leader takes what it computed for the group's and never rejoins.
    ApiKey.JOIN_GROUP: 7,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 4,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.DESCRIBE_GROUPS: 6,
    ApiKey.LIST_GROUPS: 4,
    ApiKey.SASL_HANDSHAKE: 1,
    ApiKey.API_VERSIONS: 3,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 5,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 5,
    ApiKey.ADD_OFFSETS_TO_TXN: 4,
    ApiKey.END_TXN: 5,
    ApiKey.WRITE_TXN_MARKERS: 2,
    ApiKey.TXN_OFFSET_COMMIT: 5,
    ApiKey.DESCRIBE_ACLS: 3,
    ApiKey.CREATE_ACLS: 3,
    ApiKey.DELETE_ACLS: 3,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ALTER_CONFIGS: 2,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.SASL_AUTHENTICATE: 2,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 1,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.OFFSET_DELETE: 0,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.DESCRIBE_CLUSTER: 2,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
    ApiKey.LIST_TRANSACTIONS: 2,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
}
"""The newest version that this client speaks, where newer ones change the shape of the fields."""


async def connect(
    host: str,
    port: int,
    *,
    client_id: str,
    timeout_ms: int,
    security: ClientSecurity = PLAINTEXT,
) -> Connection:
    """Open a connection, negotiate versions, and prove who this is where that is asked for.

    Raises KafkaError: network_exception where that takes longer than `timeout_ms` or fails (a
    RefusedError where nobody listens at the one address that the host has),
    sasl_authentication_failed where the name is refused.
    """
    loop = asyncio.get_running_loop()
    connection: Connection | None = None
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            tls = security.tls_context()
            _, connection = await loop.create_connection(
                lambda: Connection(client_id),
                host,
                port,
                ssl=tls,
                server_hostname=host if tls is not None else None,
            )
            await connection.negotiate()
            if security.uses_sasl:
                await authenticate(connection, security)
    except SecurityError as error:
        if connection is not None:
            connection.abort("not authenticated")
        raise KafkaError(ErrorCode.sasl_authentication_failed, str(error)) from error
    except (OSError, TimeoutError) as error:
        if connection is not None:
            connection.abort("negotiation took too long")
        # A TimeoutError says nothing by itself.
        silence = f"{host}:{port} does not answer within {timeout_ms} ms"
        reason = f"{host}:{port}: {error}" if str(error) else silence
        failure = RefusedError if isinstance(error, ConnectionRefusedError) else KafkaError
        raise failure(ErrorCode.network_exception, reason) from error
    except BaseException:
        if connection is not None:
            connection.abort("negotiation failed")
        raise
    return connection
