"""Raw requests to two brokers, and their answers as plain values that can be compared.

What differs by nature is masked: ids that are drawn by lot, ports, host-specific paths. What is
left must be equal.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import enum
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.header import encode_request_header, read_response_header

ANSWER_SECONDS_MAX = 30.0
UNKNOWN_ID = uuid.UUID(int=0xDEAD)
OUR_CONFIGS = "heliograph."
PROBE_CORRELATION_ID = 999_999
CLOSED = "the connection is closed"
SILENCE = "no answer"
MASKED_FIELDS = frozenset({"cluster_id", "log_dir", "total_bytes", "usable_bytes", "producer_id"})


UNORDERED_FIELDS = frozenset(
    {"topics", "responses", "results", "configs", "partitions", "config_resources"}
)


@dataclass
class Side:
    """One of the two brokers, with its random values."""

    name: str
    host: str
    port: int
    ids: dict[str, uuid.UUID] = field(default_factory=dict)
    """Topic ids by name."""
    epochs: dict[str, int] = field(default_factory=dict)
    """Leader epoch of partition 0 by topic."""
    from_host: str = ""
    """The address that asks; "" for any."""

    async def connect(self) -> Peer:
        local = (self.from_host, 0) if self.from_host else None
        reader, writer = await asyncio.open_connection(self.host, self.port, local_addr=local)
        return Peer(self, reader, writer)


Body = bytes | Mapping[str, Any] | Callable[[Side], bytes | Mapping[str, Any]]


@dataclass(frozen=True)
class Ask:
    """One request; a body given as fields is encoded by kio."""

    api: int
    version: int
    body: Body = b""
    header: bytes | None = None
    """The request header, where it is not the one that the version asks for."""

    def frame(self, side: Side, correlation_id: int) -> bytes:
        body = self.body(side) if callable(self.body) else self.body
        if not isinstance(body, bytes):
            body = messages.encode_request(self.api, self.version, body)
        header = self.header
        if header is None:
            known = self.api in set(ApiKey) and self.version >= 0
            header = (
                encode_request_header(self.api, self.version, correlation_id, "asking")
                if known
                else struct.pack(">hhih", self.api, self.version, correlation_id, -1)
            )
        return header + body


class Peer:
    """A raw connection to one side."""

    def __init__(
        self, side: Side, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.side = side
        self.reader = reader
        self.writer = writer

    def send_frame(self, frame: bytes) -> None:
        self.writer.write(struct.pack(">i", len(frame)) + frame)

    async def receive(self) -> memoryview | None:
        """Return the next frame; None if the connection is closed."""
        try:
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return memoryview(await self.reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    async def ask(self, request: Ask) -> Any:
        """The answer as plain values, SILENCE, or CLOSED.

        A question that has no answer is followed by one that always has: whatever comes first
        tells the two apart without waiting for time to pass.
        """
        self.send_frame(request.frame(self.side, 1))
        probe = Ask(ApiKey.API_VERSIONS, 0)
        with contextlib.suppress(ConnectionError):
            self.send_frame(probe.frame(self.side, PROBE_CORRELATION_ID))
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            frame = await self.receive()
            if frame is None:
                return CLOSED
            (correlation_id,) = struct.unpack_from(">i", frame)
            if correlation_id == PROBE_CORRELATION_ID:
                return SILENCE
            answer = self._decode(request, frame)
            return answer if await self.receive() is not None else [answer, CLOSED]

    def _decode(self, request: Ask, frame: memoryview) -> Any:
        version = request.version
        if request.api == ApiKey.API_VERSIONS and version not in range(6):
            version = 0
        _, position = read_response_header(request.api, version, frame)
        message = messages.decode_response(request.api, version, frame, position)
        return plain(message, self.side)


async def converse(side: Side, requests: Sequence[Ask]) -> list[Any]:
    """Send requests on one connection one by one, until one closes it."""
    answers: list[Any] = []
    peer = await side.connect()
    try:
        for request in requests:
            answers.append(await peer.ask(request))
            if answers[-1] == CLOSED or (isinstance(answers[-1], list) and CLOSED in answers[-1]):
                break
    finally:
        await peer.close()
    return answers


def plain(value: Any, side: Side, name: str = "") -> Any:
    """Return kio's object as mappings, lists and numbers, with random values masked."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            each.name: plain(getattr(value, each.name), side, each.name)
            for each in dataclasses.fields(value)
        }
    if isinstance(value, uuid.UUID):
        known = next((topic for topic, it in side.ids.items() if it == value), None)
        if known is not None:
            return f"id of {known}"
        return str(value) if value == UNKNOWN_ID else "another id"
    if isinstance(value, tuple):
        items = [
            plain(each, side, name)
            for each in value
            if not str(getattr(each, "name", "")).startswith(OUR_CONFIGS)
        ]
        # Kafka returns these in the order of a hash table.
        return sorted(items, key=repr) if name in UNORDERED_FIELDS else items
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, datetime.datetime | datetime.timedelta):
        return messages.ms(value)
    if isinstance(value, int) and not isinstance(value, bool | enum.Enum):
        if name == "port" and value == side.port:
            return "its port"
        if name == "session_id" and value > 0:
            return "a session"
        if name == "base_offset" and value >= 0:
            return "an offset"
    if name in MASKED_FIELDS and value not in (None, -1, ""):
        return f"its {name}"
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value
