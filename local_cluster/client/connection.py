"""One connection to one broker: pipelined requests, answered in order.

Requests are written in the order of the calls to `send`, before the first await. So a caller that
calls twice in a row knows their order on the wire. The versions are negotiated once, by
ApiVersions. After any failure the connection closes, and every request in flight fails with
NETWORK_EXCEPTION: it is not known whether the broker has handled them.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from local_cluster.client.auth.credentials import tls_context
from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity, SecurityError
from local_cluster.client.auth.session import Session
from local_cluster.client.versions import choose_version
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError
from local_cluster.wire.frame import FrameBuffers, FrameReceiver, frame_size_prefix
from local_cluster.wire.header import encode_request_header, read_response_header

RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
IN_FLIGHT_MAX: Final = 1000
CLIENT_SOFTWARE_NAME: Final = "heliograph"
CLIENT_SOFTWARE_VERSION: Final = "0.1.0"
_CORRELATION_ID_MASK: Final = 0x7FFFFFFF

Part = bytes | bytearray | memoryview
_Response = asyncio.Future[tuple[memoryview, int]]
_AUTHENTICATION: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})

_BUFFERS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, FrameBuffers]] = WeakKeyDictionary()


class RefusedError(KafkaError):
    """The host reports that no process listens at the address: it has ended or not started yet."""


class LastResponse:
    """The last response to a request that is sent again and again.

    A response with the same bytes is not decoded again: it is the same object as the last one.
    """

    __slots__ = ("_encoded", "response")

    def __init__(self) -> None:
        self._encoded = b""
        self.response: Any = None
        """The last one; None before the first."""

    def decode(self, api: ApiKey, version: int, frame: memoryview, position: int) -> Any:
        """Return the response in the frame from `position` on. Raises PeerError."""
        # The version is compared too, because it decides how the bytes are read.
        encoded = bytes((version,)) + frame[position:]
        if encoded != self._encoded:
            self.response = messages.decode_response(api, version, frame, position)
            self._encoded = encoded
        return self.response


class Connection(asyncio.BufferedProtocol):
    """A connection to a broker. Create it with `connect`."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._receiver = FrameReceiver(RESPONSE_BYTES_MAX, frame_buffers())
        self._correlation_ids = itertools.count(1)
        self._pending: deque[tuple[int, int, int, _Response]] = deque()
        """(correlation id, API, version, response) of the requests in flight."""
        self._held: deque[tuple[ApiKey, int, Sequence[Part], _Response | None]] = deque()
        """(API, version, body, response) of requests that wait for an authentication."""
        self._is_holding = False
        self._session: asyncio.Task[None] | None = None
        """Authenticates again before the session ends."""
        self._transport: asyncio.Transport | None = None
        self._closed: KafkaError | None = None
        self._lost = asyncio.get_running_loop().create_future()
        self._on_closed: Callable[[], None] | None = None
        self.versions: dict[int, tuple[int, int]] = {}
        """The broker's (lowest, highest) version by API."""

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    @property
    def peer(self) -> str:
        """The address of the broker, for messages."""
        address = self._transport.get_extra_info("peername") if self._transport else None
        return f"{address[0]}:{address[1]}" if address else "the broker"

    @property
    def in_flight(self) -> int:
        """The number of requests that wait for a response."""
        return len(self._pending) + len(self._held)

    # -- asyncio's side ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.writable()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._receiver.received(nbytes):
                self._resolve(frame)
        except PeerError as error:
            self._fail(f"broken response: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"connection lost: {exc}" if exc else "connection closed by the peer")
        if not self._lost.done():
            self._lost.set_result(None)

    # -- requests ---------------------------------------------------------------------------

    def send(self, api: ApiKey, version: int, body: Sequence[Part]) -> _Response:
        """Write a request. The future gives the response's frame and the position of its body.

        Raises KafkaError(network_exception) on a closed connection, or above IN_FLIGHT_MAX.
        """
        if self.in_flight >= IN_FLIGHT_MAX:
            raise KafkaError(
                ErrorCode.network_exception, f"{IN_FLIGHT_MAX} requests are in flight already"
            )
        self._check_open()
        future: _Response = asyncio.get_running_loop().create_future()
        if self._is_holding and api not in _AUTHENTICATION:
            self._held.append((api, version, body, future))
        else:
            self._write(api, version, body, future)
        return future

    def send_unanswered(self, api: ApiKey, version: int, body: Sequence[Part]) -> None:
        """Write a request that the broker does not answer (Produce with acks=0).

        Raises KafkaError(network_exception) on a closed connection.
        """
        self._check_open()
        if self._is_holding:
            self._held.append((api, version, body, None))
        else:
            self._write(api, version, body, None)

    def hold(self) -> None:
        """Keep requests back, except those of an authentication, in their order."""
        self._is_holding = True

    def release(self) -> None:
        """Write what was held back."""
        self._is_holding = False
        while self._held and self._closed is None:
            self._write(*self._held.popleft())

    def keep_authenticated(self, session: Session) -> None:
        """Authenticate again before the session ends (KIP-368), until the connection closes."""
        self._session = asyncio.create_task(session.keep(self))

    async def call(
        self,
        api: ApiKey,
        fields: messages.Fields,
        version_max: int | None,
        last: LastResponse | None = None,
    ) -> Any:
        """Send fields at the best version, and return kio's response object.

        Raises KafkaError: network_exception, unsupported_version; PeerError for a response that
        cannot be decoded.
        """
        version = self.choose_version(api, version_max)
        body = messages.encode_request(api, version, fields)
        frame, position = await self.send(api, version, (body,))
        if last is not None:
            return last.decode(api, version, frame, position)
        return messages.decode_response(api, version, frame, position)

    def choose_version(self, api: ApiKey, version_max: int | None = None) -> int:
        """Return the newest version that both sides know, see `versions.choose_version`."""
        return choose_version(self.versions, api, version_max)

    def has_version(self, api: ApiKey, version: int) -> bool:
        """Whether the broker knows this version."""
        low, high = self.versions.get(api, (0, -1))
        return low <= version <= high

    async def negotiate(self) -> None:
        """Send ApiVersions and keep the response. Raises KafkaError."""
        fields = {
            "client_software_name": CLIENT_SOFTWARE_NAME,
            "client_software_version": CLIENT_SOFTWARE_VERSION,
        }
        for version in (3, 0):
            body = messages.encode_request(ApiKey.API_VERSIONS, version, fields)
            frame, position = await self.send(ApiKey.API_VERSIONS, version, (body,))
            error_code = int.from_bytes(frame[position : position + 2], "big", signed=True)
            if error_code == ErrorCode.unsupported_version and version:
                continue  # KIP-511: this response has a v0 body, and the next request is v0 too
            response = messages.decode_response(ApiKey.API_VERSIONS, version, frame, position)
            if response.error_code:
                raise KafkaError(response.error_code, "ApiVersions is refused")
            self.versions = {
                int(entry.api_key): (int(entry.min_version), int(entry.max_version))
                for entry in response.api_keys
            }
            return

    # -- closing ----------------------------------------------------------------------------

    async def close(self) -> None:
        """Close, fail the requests in flight, and wait until the socket is closed."""
        self._fail("closed by this side")
        if self._transport is not None:
            await self._lost

    def abort(self, reason: str) -> None:
        """Close at once, as after a timeout: a late response cannot be trusted."""
        self._fail(reason)

    def when_closed(self, callback: Callable[[], None]) -> None:
        """Call `callback` when either side closes, at once if it is closed. For one caller."""
        self._on_closed = callback
        if self.is_closed:
            callback()

    # -- inside -----------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed is not None:
            raise KafkaError(self._closed.code, self._closed.message)

    def _write(
        self, api: ApiKey, version: int, body: Sequence[Part], response: _Response | None
    ) -> None:
        correlation_id = next(self._correlation_ids) & _CORRELATION_ID_MASK
        assert self._transport is not None
        header = encode_request_header(api, version, correlation_id, self._client_id)
        size = len(header) + sum(len(part) for part in body)
        self._transport.writelines([frame_size_prefix(size) + header, *body])
        if response is not None:
            self._pending.append((correlation_id, api, version, response))

    def _resolve(self, frame: memoryview) -> None:
        if not self._pending:
            raise PeerError("a response without a request")
        expected, api, version, future = self._pending.popleft()
        correlation_id, position = read_response_header(api, version, frame)
        if correlation_id != expected:
            raise PeerError(f"response to request {correlation_id}, {expected} was expected")
        if not future.done():
            future.set_result((frame, position))

    def _fail(self, reason: str) -> None:
        if self._closed is not None:
            return
        self._closed = KafkaError(ErrorCode.network_exception, reason)
        futures = [*(each[-1] for each in self._pending), *(each[-1] for each in self._held)]
        self._pending.clear()
        self._held.clear()
        for future in futures:
            if future is not None and not future.done():
                future.set_exception(KafkaError(ErrorCode.network_exception, reason))
                future.exception()  # a caller that gave up must not leave a warning behind
        if self._session is not None:
            self._session.cancel()
        if self._transport is not None:
            self._transport.abort()
        if self._on_closed is not None:
            self._on_closed()


async def connect(
    host: str,
    port: int,
    *,
    client_id: str,
    timeout_ms: int,
    security: ClientSecurity = PLAINTEXT,
) -> Connection:
    """Open a connection, negotiate the versions, and authenticate if `security` asks for it.

    Raises KafkaError:
    - network_exception if that fails or takes longer than `timeout_ms`. It is a RefusedError if
      no process listens at the one address of the host. It is a NoProofError if the broker
      answers, but the endpoint of tokens or the key distribution centre does not;
    - sasl_authentication_failed if the broker refuses the credential, or if there is no secret,
      token or certificate.
    """
    loop = asyncio.get_running_loop()
    connection: Connection | None = None
    session = Session(security, timeout_ms, host) if security.uses_sasl else None
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            tls = tls_context(security)
            _, connection = await loop.create_connection(
                lambda: Connection(client_id),
                host,
                port,
                ssl=tls,
                server_hostname=host if tls is not None else None,
            )
            await connection.negotiate()
        if session is not None:
            await session.begin(connection)
    except SecurityError as error:
        if connection is not None:
            connection.abort("not authenticated")
        raise KafkaError(ErrorCode.sasl_authentication_failed, str(error)) from error
    except (OSError, TimeoutError) as error:
        if connection is not None:
            connection.abort("negotiation took too long")
        # A TimeoutError has no text.
        silence = f"{host}:{port} does not answer within {timeout_ms} ms"
        reason = f"{host}:{port}: {error}" if str(error) else silence
        failure = RefusedError if isinstance(error, ConnectionRefusedError) else KafkaError
        raise failure(ErrorCode.network_exception, reason) from error
    except BaseException:
        if connection is not None:
            connection.abort("negotiation failed")
        raise
    if session is not None and session.lifetime_ms:
        connection.keep_authenticated(session)
    return connection


def frame_buffers() -> FrameBuffers:
    """Return the receive buffers that all connections of this event loop share.

    A loop runs in one thread, and receives for one connection at a time.
    """
    loop = asyncio.get_running_loop()
    buffers = _BUFFERS.get(loop)
    if buffers is None:
        buffers = _BUFFERS[loop] = FrameBuffers()
    return buffers
