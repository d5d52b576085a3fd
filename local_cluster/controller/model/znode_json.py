"""JSON of znode payloads, and Kafka's text of UUIDs; shared by the codecs of znodes.

Guarantee: every reader raises UnreadableZnodeError, and nothing else, on anything but the expected
type. Messages do not repeat payloads: those of users hold credentials.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from local_cluster.foreign_json import (
    INT32_MAX,
    INT64_MAX,
    decimal,
    integer,
    parse_object,
    string,
)

INT32_MIN: Final = -INT32_MAX - 1


class UnreadableZnodeError(ValueError):
    """The payload of a znode is not in its format."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn a ValueError into an UnreadableZnodeError that names what was read."""
    try:
        yield
    except UnreadableZnodeError:
        raise
    except ValueError as error:
        raise UnreadableZnodeError(f"{what}: {error}") from error


def encode_json(body: Mapping[str, Any]) -> bytes:
    """Encode a payload as Kafka does: no spaces, keys in the order of `body`."""
    return json.dumps(body, separators=(",", ":")).encode()


def decode_json(payload: bytes) -> dict[str, Any]:
    """Decode a payload, which must be a JSON object."""
    try:
        return parse_object(payload)
    except UnicodeDecodeError as error:
        raise UnreadableZnodeError("the znode payload is not UTF-8") from error
    except ValueError as error:
        raise UnreadableZnodeError(f"znode payload: {error}") from error


def objects_of(payload: bytes, key: str) -> list[dict[str, Any]]:
    """Return the list of objects under a key."""
    entries = decode_json(payload).get(key)
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise UnreadableZnodeError(f"znode payload has no list of objects {key!r}")
    return entries


def object_of(body: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object under a key; an empty one if there is none, or null."""
    value = body.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UnreadableZnodeError(f"znode payload has no object {key!r}")
    return value


def strings_of(body: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return the object of strings under a key; an empty one if there is none, or null."""
    found = object_of(body, key)
    if not all(isinstance(value, str) for value in found.values()):
        raise UnreadableZnodeError(f"znode payload has no object of strings {key!r}")
    return found


def integers_of(body: Mapping[str, Any], key: str) -> tuple[int, ...]:
    """Return the list of integers under a key, each an int32."""
    values = body.get(key)
    if not isinstance(values, list):
        raise UnreadableZnodeError(f"znode payload has no list {key!r}")
    with reading(f"znode payload, list {key!r}"):
        return tuple(integer(value, INT32_MIN, INT32_MAX) for value in values)


def broker_ids_of(body: Mapping[str, Any], key: str) -> tuple[int, ...]:
    """Return the list of broker ids under a key, each of them once."""
    ids = integers_of(body, key)
    if len(set(ids)) < len(ids) or min(ids, default=0) < 0:
        raise UnreadableZnodeError(f"znode payload has no list of broker ids {key!r}")
    return ids


def integer_of(
    body: Mapping[str, Any], key: str, minimum: int = INT32_MIN, maximum: int = INT32_MAX
) -> int:
    """Return the integer under a key."""
    with reading(f"znode payload, key {key!r}"):
        return integer(body.get(key), minimum, maximum)


def string_of(body: Mapping[str, Any], key: str) -> str:
    """Return the string under a key."""
    with reading(f"znode payload, key {key!r}"):
        return string(body.get(key))


def decimal_of(text: str, maximum: int = INT64_MAX) -> int:
    """Return the number from 0 to `maximum` that a text of ASCII digits is."""
    try:
        return decimal(text, maximum)
    except ValueError as error:
        raise UnreadableZnodeError(str(error)) from error


def encode_uuid(value: uuid.UUID) -> str:
    """Return Kafka's text of a UUID: base64url of its 16 bytes, without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> uuid.UUID:
    """Read Kafka's text of a UUID."""
    with reading("Kafka's text of a UUID"):
        padded = string(text) + "=" * (-len(text) % 4)
        return uuid.UUID(bytes=base64.urlsafe_b64decode(padded))
