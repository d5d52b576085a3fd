"""JSON of znode payloads, and Kafka's text of UUIDs; shared by the codecs of this folder.

Guarantee: every reader raises ValueError on anything but the expected type.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from typing import Any


def encode_json(body: Mapping[str, Any]) -> bytes:
    """Encode a payload as Kafka does: no spaces, keys in the order of `body`."""
    return json.dumps(body, separators=(",", ":")).encode()


def decode_json(payload: bytes) -> dict[str, Any]:
    """Decode a payload. Raises ValueError unless it is a JSON object."""
    body = json.loads(payload)
    if not isinstance(body, dict):
        raise ValueError(f"znode payload is not a JSON object: {payload[:100]!r}")
    return body


def objects_of(payload: bytes, key: str) -> list[dict[str, Any]]:
    """Return the list of objects under a key. Raises ValueError if there is none."""
    entries = decode_json(payload).get(key)
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise ValueError(f"znode payload has no list of objects {key!r}")
    return entries


def integers_of(body: Mapping[str, Any], key: str) -> tuple[int, ...]:
    """Return the list of integers under a key. Raises ValueError if there is none."""
    values = body.get(key)
    if not isinstance(values, list):
        raise ValueError(f"znode payload has no list {key!r}")
    try:
        return tuple(int(value) for value in values)
    except TypeError as error:
        raise ValueError(f"znode payload has no list of integers {key!r}") from error


def integer_of(body: Mapping[str, Any], key: str) -> int:
    """Return the integer under a key. Raises ValueError if there is none."""
    try:
        return int(body[key])
    except (KeyError, TypeError) as error:
        raise ValueError(f"znode payload has no integer {key!r}") from error


def string_of(body: Mapping[str, Any], key: str) -> str:
    """Return the string under a key. Raises ValueError if there is none."""
    value = body.get(key)
    if not isinstance(value, str):
        raise ValueError(f"znode payload has no string {key!r}")
    return value


def encode_uuid(value: uuid.UUID) -> str:
    """Return Kafka's text of a UUID: base64url of its 16 bytes, without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> uuid.UUID:
    """Read Kafka's text of a UUID."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
