"""Every message without a codec by hand: kio's classes behind version-free field names.

kio has one frozen class per message and version. Handlers and clients are written once for all
versions, so they give a *mapping* of field names to values (nested: mappings in sequences) and
this module builds the class of the version at hand: fields that the version does not have are
left out, fields not given take the schema's default. Reading gives kio's object as it is; use
`get(message, "field", default)` for a field that only some versions have.

Units: where the schema counts milliseconds kio names the field without `_ms` and uses timedelta
or datetime; here plain integers of milliseconds are taken, and `ms()` gives them back.
"""

from __future__ import annotations

import datetime
import io
import struct
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import lru_cache
from typing import Any, Final, get_type_hints

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from local_cluster.wire import kio_fixes, kio_schema
from local_cluster.wire.errors import ErrorCode, PeerError

Fields = Mapping[str, Any]

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


def ms(value: datetime.timedelta | datetime.datetime | None) -> int:
    """Milliseconds of a kio duration, or since the epoch of a kio datetime; -1 for None."""
    if value is None:
        return -1
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // _MILLISECOND
    return value // _MILLISECOND


def get(message: object, field: str, default: Any) -> Any:
    """The field's value, or the default where this version of the message lacks the field."""
    return getattr(message, field, default)


@lru_cache(maxsize=512)
def _codec(api_key: int, version: int, response: bool) -> tuple[Any, Any, Any, Any]:
    schema = kio_fixes.RESPONSES.get((api_key, version)) if response else None
    if schema is None:
        schema = (load_response_schema if response else load_request_schema)(api_key, version)
    return schema, _builder(schema), entity_reader(schema), entity_writer(schema)


def decode_request(api_key: int, version: int, frame: memoryview, position: int) -> Any:
    """Read the body of a request. Raises PeerError where the bytes are not that message."""
    return _decode(api_key, version, False, frame, position)


def decode_response(api_key: int, version: int, frame: memoryview, position: int) -> Any:
    """Read the body of a response. Raises PeerError where the bytes are not that message."""
    return _decode(api_key, version, True, frame, position)


def encode_request(api_key: int, version: int, values: Fields) -> bytes:
    """Body bytes of a request, from a mapping of the newest schema's field names."""
    return _encode(api_key, version, False, values)


def encode_response(api_key: int, version: int, values: Fields) -> bytes:
    """Body bytes of a response, from a mapping of the newest schema's field names."""
    return _encode(api_key, version, True, values)


def _decode(api_key: int, version: int, response: bool, frame: memoryview, position: int) -> Any:
    schema, _, reader, _ = _codec(api_key, version, response)
    # The native reader wants bytes; these messages are small, the big ones are by hand.
    body = kio_schema.check(schema, bytes(frame[position:]))
    try:
        message, _ = reader(body, 0)
    except Exception as error:  # kio raises several unrelated families on bad bytes
        raise PeerError(f"api {api_key} v{version}: body is not readable: {error}") from error
    return message


def _encode(api_key: int, version: int, response: bool, values: Fields) -> bytes:
    _, build, _, writer = _codec(api_key, version, response)
    out = io.BytesIO()
    try:
        writer(out, build(values))
    except (struct.error, TypeError, AttributeError) as error:
        error.add_note(f"while encoding api {api_key} v{version} from {values!r:.500}")
        raise
    return out.getvalue()


def _to_duration(value: Any) -> Any:
    return datetime.timedelta(milliseconds=value) if isinstance(value, int) else value


def _to_datetime(value: Any) -> Any:
    if isinstance(value, int):
        return None if value < 0 else _EPOCH + value * _MILLISECOND
    return value


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "timedelta_i32": _to_duration,
    "timedelta_i64": _to_duration,
    "datetime_i64": _to_datetime,
    "error_code": ErrorCode,
}


@lru_cache(maxsize=2048)
def _builder(schema: Any) -> Callable[[Fields], Any]:
    """A function that makes an instance of `schema` from a mapping, recursively."""
    hints = get_type_hints(schema)
    names = []
    converters: list[tuple[str, Callable[[Any], Any]]] = []
    required: list[tuple[str, Any]] = []
    for entry in fields(schema):
        names.append(entry.name)
        convert = _converter(hints[entry.name], entry.metadata.get("kafka_type", ""))
        if convert is not None:
            converters.append((entry.name, convert))
        if entry.default is MISSING and entry.default_factory is MISSING:
            if entry.name.startswith("throttle_time"):
                required.append((entry.name, datetime.timedelta(0)))
            elif kio_schema.is_array(hints[entry.name]):
                required.append((entry.name, ()))

    def build(values: Fields) -> Any:
        arguments = {name: values[name] for name in names if name in values}
        for name, convert in converters:
            if name in arguments:
                arguments[name] = convert(arguments[name])
        for name, default in required:
            arguments.setdefault(name, default)
        return schema(**arguments)

    return build


def _converter(hint: Any, kafka_type: str) -> Callable[[Any], Any] | None:
    element = kio_schema.nested_schema(hint)
    if element is not None:
        build = _builder(element)
        if kio_schema.is_array(hint):
            return lambda values: None if values is None else tuple(build(v) for v in values)
        return lambda value: None if value is None else build(value)
    convert = _CONVERTERS.get(kafka_type)
    if convert is not None and kio_schema.is_array(hint):
        return lambda values: None if values is None else tuple(convert(v) for v in values)
    if convert is None and kio_schema.is_array(hint):
        return lambda values: None if values is None else tuple(values)
    return convert
