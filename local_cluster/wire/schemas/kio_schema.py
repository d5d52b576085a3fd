"""Walk kio's schema classes: check the lengths in a message before kio reads it.

kio's native reader allocates an array before it reads the elements: a length of two billion in a
frame of ten bytes ends the process (CVE-2022-34917 is this mistake in Kafka). `check_lengths`
walks the bytes by the same schema first and allocates nothing.

It also removes tagged fields that the schema does not know. A newer peer may send them (KIP-482),
and kio refuses to read them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, get_args, get_type_hints

from local_cluster.wire.errors import PeerError
from local_cluster.wire.primitives import (
    ARRAY_LENGTH_MAX,
    TAGGED_FIELDS_MAX,
    read_unsigned_varint,
    write_unsigned_varint,
)


class Edit(NamedTuple):
    """A replacement: a section of tagged fields without the unknown ones."""

    start: int
    end: int
    replacement: bytes


Walk = Callable[[bytes, int, list[Edit]], int]
"""Skips one value: (buffer, position, edits found) -> position after it."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")

_FIXED_BYTES: Final = {
    "int8": 1,
    "bool": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}


def check_lengths(schema: Any, buffer: bytes) -> bytes:
    """Return the buffer without the tagged fields that `schema` does not know.

    Raises PeerError for a length that runs past the end of the frame, or is above Kafka's limits.
    A null array is refused in the same way unless the schema allows it.
    """
    edits: list[Edit] = []
    try:
        end = _entity(schema)(buffer, 0, edits)
    except (IndexError, struct.error) as error:
        raise PeerError(f"{schema.__name__} is cut short") from error
    if end > len(buffer):
        raise PeerError(f"{schema.__name__} runs {end - len(buffer)} bytes past its frame")
    return _edited(buffer, 0, end, edits) if edits else buffer


def _edited(buffer: bytes, start: int, end: int, edits: list[Edit]) -> bytes:
    """Return the bytes from `start` to `end` with edits applied; edits are in order, disjoint."""
    out = bytearray()
    for edit in edits:
        out += buffer[start : edit.start] + edit.replacement
        start = edit.end
    return bytes(out + buffer[start:end])


@lru_cache(maxsize=2048)
def _entity(schema: Any) -> Walk:
    flexible = bool(schema.__flexible__)
    hints = get_type_hints(schema)
    steps: list[int | Walk] = []
    tagged: dict[int, Walk] = {}
    for field in fields(schema):
        if field.name.startswith("__"):
            continue
        tag = field.metadata.get("tag")
        step = _field(hints[field.name], field.metadata.get("kafka_type", ""), flexible, tag)
        if tag is not None:
            tagged[tag] = _as_walk(step)
        elif isinstance(step, int) and steps and isinstance(steps[-1], int):
            steps[-1] += step
        else:
            steps.append(step)
    if flexible:
        steps.append(_tagged(tagged))
    if len(steps) == 1 and not callable(steps[0]):
        return _as_walk(steps[0])

    def walk(buffer: bytes, position: int, edits: list[Edit]) -> int:
        for step in steps:
            position = step(buffer, position, edits) if callable(step) else position + step
        if position > len(buffer):
            raise PeerError("a length runs past the end of the frame")
        return position

    return walk


def _as_walk(step: int | Walk) -> Walk:
    if callable(step):
        return step
    return lambda _buffer, position, _edits: position + step


def _field(hint: Any, kafka_type: str, flexible: bool, tag: int | None) -> int | Walk:
    nested = nested_schema(hint)
    if is_array(hint):
        element = _entity(nested) if nested else _primitive(kafka_type, flexible)
        return _array(element, flexible, nullable=type(None) in get_args(hint))
    if nested:
        optional = tag is None and type(None) in get_args(hint)
        return _nullable(_entity(nested)) if optional else _entity(nested)
    return _primitive(kafka_type, flexible)


def _primitive(kafka_type: str, flexible: bool) -> int | Walk:
    if kafka_type in _FIXED_BYTES:
        return _FIXED_BYTES[kafka_type]
    if flexible:
        return _compact_bytes
    return _legacy_string if kafka_type == "string" else _legacy_bytes


def _array(element: int | Walk, flexible: bool, *, nullable: bool) -> Walk:
    element_bytes_min = element if isinstance(element, int) else 1

    def walk(buffer: bytes, position: int, edits: list[Edit]) -> int:
        if flexible:
            count, position = read_unsigned_varint(buffer, position)
            count -= 1
        else:
            (count,) = _INT32.unpack_from(buffer, position)
            position += 4
        if count > ARRAY_LENGTH_MAX or count * element_bytes_min > len(buffer) - position:
            raise PeerError(f"array of {count} in {len(buffer) - position} bytes")
        if count < (-1 if nullable else 0):
            raise PeerError(f"array of {count}")
        if not callable(element):
            return position + max(count, 0) * element
        for _ in range(count):
            position = element(buffer, position, edits)
        return position

    return walk


def _nullable(entity: Walk) -> Walk:
    def walk(buffer: bytes, position: int, edits: list[Edit]) -> int:
        is_null = buffer[position] >= 0x80
        return position + 1 if is_null else entity(buffer, position + 1, edits)

    return walk


def _tagged(known: dict[int, Walk]) -> Walk:
    def walk(buffer: bytes, position: int, edits: list[Edit]) -> int:
        start = position
        count, position = read_unsigned_varint(buffer, position)
        if count > TAGGED_FIELDS_MAX:
            raise PeerError(f"{count} tagged fields")
        kept: list[bytes] = []
        changed = False
        for _ in range(count):
            tag, position = read_unsigned_varint(buffer, position)
            size, position = read_unsigned_varint(buffer, position)
            end = position + size
            if end > len(buffer):
                raise PeerError("tagged field runs past the end of the frame")
            if tag in known:
                inner: list[Edit] = []
                known[tag](buffer, position, inner)
                value = _edited(buffer, position, end, inner)
                kept.append(write_unsigned_varint(tag) + write_unsigned_varint(len(value)) + value)
                changed = changed or bool(inner)
            else:
                changed = True
            position = end
        if changed:
            edits.append(Edit(start, position, write_unsigned_varint(len(kept)) + b"".join(kept)))
        return position

    return walk


def _compact_bytes(buffer: bytes, position: int, _: list[Edit]) -> int:
    size, position = read_unsigned_varint(buffer, position)
    return _past(buffer, position, size - 1)


def _legacy_string(buffer: bytes, position: int, _: list[Edit]) -> int:
    (size,) = _INT16.unpack_from(buffer, position)
    return _past(buffer, position + 2, size)


def _legacy_bytes(buffer: bytes, position: int, _: list[Edit]) -> int:
    (size,) = _INT32.unpack_from(buffer, position)
    return _past(buffer, position + 4, size)


def _past(buffer: bytes, position: int, size: int) -> int:
    if size > len(buffer) - position:
        raise PeerError("a length runs past the end of the frame")
    return position + max(size, 0)


def is_array(hint: Any) -> bool:
    """Return whether a field of kio's is an array, nullable or not."""
    return getattr(hint, "__origin__", None) is tuple or any(
        getattr(part, "__origin__", None) is tuple for part in get_args(hint)
    )


def nested_schema(hint: Any) -> Any:
    """Return the class of the struct in a field, or of its elements; None for primitives."""
    if isinstance(hint, type) and is_dataclass(hint):
        return hint
    for part in get_args(hint):
        found = nested_schema(part)
        if found is not None:
            return found
    return None
