"""All messages without a codec by hand: kio's classes behind version-free field names.

kio has one frozen class per message and version. Handlers and clients are written once for all
versions: they give a mapping of field names to values (nested: mappings in sequences), which is
written as the class of the version at hand says. A field that the version lacks is left out; a
field that is not given takes the schema's default. A field that no version knows raises TypeError.

Reading returns kio's object. Use `get(message, "field", default)` for a field that only some
versions have.

Units: kio names a field of milliseconds without `_ms` and uses timedelta or datetime. Encoding
takes plain integers of milliseconds, and `ms()` converts back.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache, partial
from typing import Any, Final, TypeVar, get_type_hints, overload

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader

from local_cluster.wire.errors import PeerError
from local_cluster.wire.schemas import kafka_4_4_messages, kio_fixes, kio_schema
from local_cluster.wire.schemas.encoding import Write, message_writer

Fields = Mapping[str, Any]
T = TypeVar("T")

_OURS: Final = {
    False: kafka_4_4_messages.REQUESTS,
    True: kio_fixes.RESPONSES | kafka_4_4_messages.RESPONSES,
}
"""Is it a response? -> our classes by (api key, version)."""
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


def ms(value: datetime.timedelta | datetime.datetime | None) -> int:
    """Return the milliseconds of a kio duration, or since the epoch; -1 for None."""
    if value is None:
        return -1
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // _MILLISECOND
    return value // _MILLISECOND


@overload
def get(message: object, field: str, default: tuple[()] | None) -> Any: ...
@overload
def get(message: object, field: str, default: T) -> T: ...
def get(message: object, field: str, default: Any) -> Any:
    """Return the field's value, or the default where this version of the message lacks it."""
    return getattr(message, field, default)


def decode_request(api_key: int, version: int, frame: memoryview, position: int) -> Any:
    """Read the body of a request. Raises PeerError for bytes that are not that message."""
    return _decode(api_key, version, False, frame, position)


def decode_response(api_key: int, version: int, frame: memoryview, position: int) -> Any:
    """Read the body of a response. Raises PeerError for bytes that are not that message."""
    return _decode(api_key, version, True, frame, position)


def encode_request(api_key: int, version: int, values: Fields) -> bytes:
    """Encode the body of a request. Raises TypeError for a field that no version has."""
    return _encode(api_key, version, False, values)


def encode_response(api_key: int, version: int, values: Fields) -> bytes:
    """Encode the body of a response. Raises TypeError for a field that no version has."""
    return _encode(api_key, version, True, values)


def load_schema(api_key: int, version: int, response: bool) -> Any:
    """Return kio's class of a message, or ours where kio's is wrong or missing."""
    ours = _OURS[response].get((api_key, version))
    if ours is not None:
        return ours
    return (load_response_schema if response else load_request_schema)(api_key, version)


@lru_cache(maxsize=512)
def _codec(api_key: int, version: int, response: bool) -> tuple[Any, Any, Write]:
    schema = load_schema(api_key, version, response)
    check_known = partial(_require_known, api_key, response)
    return schema, entity_reader(schema), message_writer(schema, check_known)


def _decode(api_key: int, version: int, response: bool, frame: memoryview, position: int) -> Any:
    schema, reader, _ = _codec(api_key, version, response)
    # The native reader needs bytes. The copy is small: large messages have codecs by hand.
    body = kio_schema.check_lengths(schema, bytes(frame[position:]))
    try:
        message, _ = reader(body, 0)
    except Exception as error:  # kio raises several unrelated families on bad bytes
        raise PeerError(f"api {api_key} v{version}: body is not readable: {error}") from error
    return message


def _encode(api_key: int, version: int, response: bool, values: Fields) -> bytes:
    _, _, write = _codec(api_key, version, response)
    out = bytearray()
    try:
        write(out, values)
    except (struct.error, TypeError, AttributeError) as error:
        error.add_note(f"while encoding api {api_key} v{version} from {values!r:.500}")
        raise
    return bytes(out)


def _require_known(api_key: int, response: bool, path: tuple[str, ...], names: set[str]) -> None:
    """Raise TypeError unless each field exists at `path` in some version of the message."""
    versions = {version for key, version in _OURS[response] if key == api_key}
    for version in sorted(versions.union(schema_name_map[api_key_map[api_key]]), reverse=True):
        schema: Any = load_schema(api_key, version, response)
        for field in path:
            hint = get_type_hints(schema).get(field)
            schema = None if hint is None else kio_schema.nested_schema(hint)
            if schema is None:
                break
        if schema is not None:
            names = names.difference(entry.name for entry in fields(schema))
        if not names:
            return
    kind = "response" if response else "request"
    where = "".join(f" in {field}" for field in reversed(path))
    raise TypeError(f"no version of this {kind} has the field {', '.join(sorted(names))}{where}")
