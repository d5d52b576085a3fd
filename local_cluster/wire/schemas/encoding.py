"""Write a message from a mapping of field names to values, as a class of kio describes it.

kio writes instances of its classes only. To make one and to write it took four times as long.

Values are those of kio, or plain: an integer of milliseconds for a duration or a time (negative for
no time), an integer for an error code.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Final, get_args, get_type_hints

from kio.serial._implicit_defaults import get_tagged_field_default

from local_cluster.wire.primitives import write_array_length, write_string, write_unsigned_varint
from local_cluster.wire.schemas.kio_schema import is_array, nested_schema

Write = Callable[[bytearray, Any], None]
"""Appends one value. Raises TypeError, AttributeError or struct.error for a value that is none."""
CheckKnown = Callable[[tuple[str, ...], set[str]], None]
"""Raises TypeError for fields at a path that no version of the message has."""

_NOT_GIVEN: Final = object()
_NO_TIME: Final = -1
_NO_ID: Final = bytes(16)
_NULL_STRUCT: Final = 0xFF
_STRUCT_FOLLOWS: Final = 0x01
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_NUMBERS: Final = {
    "int8": struct.Struct(">b"),
    "int16": _INT16,
    "int32": _INT32,
    "int64": _INT64,
    "uint8": struct.Struct(">B"),
    "uint16": struct.Struct(">H"),
    "uint32": struct.Struct(">I"),
    "uint64": struct.Struct(">Q"),
    "float64": struct.Struct(">d"),
}


def message_writer(schema: Any, check_known: CheckKnown, path: tuple[str, ...] = ()) -> Write:
    """Return what writes a mapping as `schema`; `path` names the fields that lead to it."""
    hints = get_type_hints(schema)
    flexible = bool(schema.__flexible__)
    steps: list[tuple[str, Write, bytes | None]] = []
    tagged: list[tuple[int, str, Write, Any, bytes | None]] = []
    for entry in fields(schema):
        name, hint, tag = entry.name, hints[entry.name], entry.metadata.get("tag")
        kind = entry.metadata.get("kafka_type", "")
        write = _field_writer(hint, kind, flexible, tag is not None, check_known, (*path, name))
        if tag is None:
            default = _default_of(entry, hint)
            steps.append((name, write, None if default is _NOT_GIVEN else _written(write, default)))
        else:
            default = as_mapping(get_tagged_field_default(entry))
            told = None if default is None else _written(write, default)
            tagged.append((tag, name, write, default, told))
    tagged.sort(key=lambda each: each[0])
    known = {entry.name for entry in fields(schema)}

    def write_message(out: bytearray, values: Mapping[str, Any]) -> None:
        if not known.issuperset(values):
            check_known(path, set(values) - known)
            known.update(values)
        for name, write, default in steps:
            value = values.get(name, _NOT_GIVEN)
            if value is not _NOT_GIVEN:
                write(out, value)
            elif default is not None:
                out += default
            else:
                raise TypeError(f"{schema.__name__} needs the field {name}")
        if flexible:
            out += _tagged_fields(values, tagged) if tagged else b"\0"

    return write_message


def _tagged_fields(
    values: Mapping[str, Any], tagged: list[tuple[int, str, Write, Any, bytes | None]]
) -> bytes:
    """Return the section of tagged fields: those that are given and differ from the default."""
    found = []
    for tag, name, write, default, told in tagged:
        value = values.get(name, default)
        if value is None and told is None:
            continue
        written = _written(write, value)
        if written != told:
            found.append(write_unsigned_varint(tag) + write_unsigned_varint(len(written)) + written)
    return write_unsigned_varint(len(found)) + b"".join(found)


def _written(write: Write, value: Any) -> bytes:
    out = bytearray()
    write(out, value)
    return bytes(out)


def _default_of(entry: Field[Any], hint: Any) -> Any:
    if entry.default is not MISSING:
        return as_mapping(entry.default)
    if entry.default_factory is not MISSING:
        return as_mapping(entry.default_factory())
    if entry.name.startswith("throttle_time"):
        return 0
    return () if is_array(hint) else _NOT_GIVEN


def as_mapping(value: Any) -> Any:
    """Return an instance of a kio class as a mapping, also inside of arrays; else the value."""
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: as_mapping(getattr(value, entry.name)) for entry in fields(value)}
    return [as_mapping(each) for each in value] if isinstance(value, tuple) else value


def _field_writer(
    hint: Any,
    kind: str,
    flexible: bool,
    is_tagged: bool,
    check_known: CheckKnown,
    path: tuple[str, ...],
) -> Write:
    nested = nested_schema(hint)
    is_optional = type(None) in get_args(hint)
    element: Write
    if is_array(hint):
        element = (
            _value_writer(kind, flexible, is_optional=False)
            if nested is None
            else message_writer(nested, check_known, path)
        )
        return _array_writer(element, flexible)
    # A tag that is absent says null, so a value that is there is never marked.
    may_be_null = is_optional and not is_tagged
    if nested is None:
        return _value_writer(kind, flexible, is_optional=may_be_null)
    element = message_writer(nested, check_known, path)
    return _struct_or_null_writer(element) if may_be_null else element


def _array_writer(element: Write, flexible: bool) -> Write:
    null = b"\0" if flexible else _INT32.pack(-1)

    def write_array(out: bytearray, values: Any) -> None:
        if values is None:
            out += null
            return
        out += write_array_length(len(values), flexible=flexible)
        for value in values:
            element(out, value)

    return write_array


def _struct_or_null_writer(element: Write) -> Write:
    """KIP-893."""

    def write_struct(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(_NULL_STRUCT)
        else:
            out.append(_STRUCT_FOLLOWS)
            element(out, value)

    return write_struct


def _value_writer(kind: str, flexible: bool, *, is_optional: bool) -> Write:
    if kind in _NUMBERS:
        pack = _NUMBERS[kind].pack

        def write_number(out: bytearray, value: Any) -> None:
            out += pack(value)

        return write_number
    if kind in ("timedelta_i32", "timedelta_i64"):
        return _duration_writer(_INT32 if kind == "timedelta_i32" else _INT64)
    if kind in ("string", "bytes", "records"):
        write = _string_writer(flexible) if kind == "string" else _bytes_writer(flexible)
        return write if is_optional else _never_null(write)
    return _OTHERS[kind]


def _string_writer(flexible: bool) -> Write:
    def write(out: bytearray, value: str | None) -> None:
        out += write_string(value, flexible=flexible)

    return write


def _bytes_writer(flexible: bool) -> Write:
    def write(out: bytearray, value: Any) -> None:
        size = -1 if value is None else len(value)
        out += write_unsigned_varint(size + 1) if flexible else _INT32.pack(size)
        if value is not None:
            out += value

    return write


def _never_null(write: Write) -> Write:
    def write_value(out: bytearray, value: Any) -> None:
        if value is None:
            raise TypeError("null in a field that has none")
        write(out, value)

    return write_value


def _duration_writer(layout: struct.Struct) -> Write:
    pack = layout.pack

    def write_duration(out: bytearray, value: Any) -> None:
        if isinstance(value, datetime.timedelta):
            value = round(value.total_seconds() * 1000)
        out += pack(value)

    return write_duration


def _write_time(out: bytearray, value: Any) -> None:
    if value is None:
        value = _NO_TIME
    elif isinstance(value, datetime.datetime):
        value = round(value.timestamp() * 1000)
    out += _INT64.pack(max(value, _NO_TIME))


def _write_error_code(out: bytearray, value: Any) -> None:
    out += _INT16.pack(value)


def _write_bool(out: bytearray, value: Any) -> None:
    out.append(1 if value else 0)


def _write_uuid(out: bytearray, value: Any) -> None:
    out += _NO_ID if value is None else value.bytes


_OTHERS: Final[Mapping[str, Write]] = {
    "bool": _write_bool,
    "datetime_i64": _write_time,
    "error_code": _write_error_code,
    "uuid": _write_uuid,
}
