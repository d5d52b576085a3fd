"""Request and response headers, by hand: they are on every path.

Request header v0 has no client id, v1 has one, v2 adds tagged fields. The client id is a legacy
string in all of them. Response header v0 is the correlation id, v1 adds tagged fields. A response
to ApiVersions always has header v0, so that a client of any version can read it (KIP-511).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from local_cluster.wire.api import FLEXIBLE_SINCE, ApiKey
from local_cluster.wire.errors import PeerError
from local_cluster.wire.primitives import skip_tagged_fields

_FIXED: Final = struct.Struct(">hhi")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")

CLIENT_ID_BYTES_MAX: Final = 4096


class RequestHeader(NamedTuple):
    """The header of a request; `body_position` is where the body starts."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def read_request_header(frame: memoryview) -> RequestHeader:
    """Read the header of a request frame (without its length prefix).

    Raises PeerError for bytes that are not a request header.
    """
    try:
        api_key, version, correlation_id = _FIXED.unpack_from(frame, 0)
        (length,) = _INT16.unpack_from(frame, 8)
        position = 10
        client_id: str | None = None
        if length >= 0:
            if length > CLIENT_ID_BYTES_MAX or position + length > len(frame):
                raise PeerError(f"client id of {length} bytes in a frame of {len(frame)}")
            client_id = str(frame[position : position + length], "utf-8", "replace")
            position += length
        flexible_since = FLEXIBLE_SINCE.get(api_key)
        if flexible_since is not None and version >= flexible_since:
            position = skip_tagged_fields(frame, position)
    except (struct.error, IndexError) as error:
        raise PeerError(f"request header cut short at {len(frame)} bytes") from error
    return RequestHeader(api_key, version, correlation_id, client_id, position)


def encode_request_header(
    api_key: int, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Encode header v1 or v2, whichever the API's version uses."""
    encoded = None if client_id is None else client_id.encode()
    header = _FIXED.pack(api_key, version, correlation_id)
    header += _INT16.pack(-1) if encoded is None else _INT16.pack(len(encoded)) + encoded
    return header + b"\0" if version >= FLEXIBLE_SINCE[api_key] else header


def response_header_is_flexible(api_key: int, version: int) -> bool:
    """Return whether the response of this API version has header v1."""
    return api_key != ApiKey.API_VERSIONS and version >= FLEXIBLE_SINCE[api_key]


def encode_response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """Encode response header v0 or v1, without the frame's length prefix."""
    if response_header_is_flexible(api_key, version):
        return _INT32.pack(correlation_id) + b"\0"
    return _INT32.pack(correlation_id)


def read_response_header(api_key: int, version: int, frame: memoryview) -> tuple[int, int]:
    """Return (correlation id, position of the body). Raises PeerError for too few bytes."""
    try:
        (correlation_id,) = _INT32.unpack_from(frame, 0)
        if response_header_is_flexible(api_key, version):
            return correlation_id, skip_tagged_fields(frame, 4)
    except (struct.error, IndexError) as error:
        raise PeerError(f"response header cut short at {len(frame)} bytes") from error
    return correlation_id, 4
