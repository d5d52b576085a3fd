"""Protobuf messages as shapes. Pure.

    message, repeated, map           struct, list, map
    enum                             the name, or the number if the schema has no name for it
    uint32, fixed32; uint64, fixed64 bigint; decimal(20, 0)
    google.protobuf.Timestamp        timestamp
    a field with presence            null if it is absent; others have their default value

Source: the Protocol Buffers language guide, proto3 and editions.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from spark_global.values.formats.shapes import (
    Mapped,
    Repeated,
    Scalar,
    Shape,
    struct_column,
    struct_type,
)
from spark_global.values.not_decodable import NotDecodable, UnusableSchema

TIMESTAMP: Final = "google.protobuf.Timestamp"
_WELL_KNOWN: Final = frozenset(
    f"google/protobuf/{name}.proto"
    for name in ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
)
"""Files that protobuf itself has."""
_US_PER_SECOND: Final = 1_000_000
_NS_PER_US: Final = 1_000

_INT32: Final = Scalar(pa.int32(), frozenset({int}))
_INT64: Final = Scalar(pa.int64(), frozenset({int}))
_UINT64: Final = Scalar(pa.decimal128(20, 0), frozenset({int}))
_SCALARS: Final[Mapping[int, Scalar]] = {
    FieldDescriptor.TYPE_BOOL: Scalar(pa.bool_(), frozenset({bool})),
    FieldDescriptor.TYPE_BYTES: Scalar(pa.binary(), frozenset({bytes})),
    FieldDescriptor.TYPE_STRING: Scalar(pa.string(), frozenset({str})),
    FieldDescriptor.TYPE_DOUBLE: Scalar(pa.float64(), frozenset({float})),
    FieldDescriptor.TYPE_FLOAT: Scalar(pa.float32(), frozenset({float})),
    FieldDescriptor.TYPE_INT32: _INT32,
    FieldDescriptor.TYPE_SINT32: _INT32,
    FieldDescriptor.TYPE_SFIXED32: _INT32,
    FieldDescriptor.TYPE_UINT32: _INT64,
    FieldDescriptor.TYPE_FIXED32: _INT64,
    FieldDescriptor.TYPE_INT64: _INT64,
    FieldDescriptor.TYPE_SINT64: _INT64,
    FieldDescriptor.TYPE_SFIXED64: _INT64,
    FieldDescriptor.TYPE_UINT64: _UINT64,
    FieldDescriptor.TYPE_FIXED64: _UINT64,
}


@dataclass(frozen=True, slots=True)
class Names:
    """Numbers of an enum, as their names."""

    names: Mapping[int, str]

    @property
    def type(self) -> pa.DataType:
        return pa.string()

    def build(self, values: Sequence[Any]) -> pa.Array:
        texts = [None if each is None else self.names.get(each, str(each)) for each in values]
        return pa.array(texts, type=pa.string())


@dataclass(frozen=True, slots=True)
class Instants:
    """Messages `google.protobuf.Timestamp`, as timestamps; nanoseconds are cut off."""

    @property
    def type(self) -> pa.DataType:
        return pa.timestamp("us", tz="UTC")

    def build(self, values: Sequence[Any]) -> pa.Array:
        times = [
            None if each is None else each.seconds * _US_PER_SECOND + each.nanos // _NS_PER_US
            for each in values
        ]
        try:
            return pa.array(times, type=self.type)
        except (pa.ArrowInvalid, OverflowError) as error:
            raise NotDecodable("a timestamp out of range") from error


@dataclass(frozen=True, slots=True)
class MessageStruct:
    """Messages as structs."""

    empty: Any
    """A message without fields, in place of null."""
    fields: Mapping[str, Shape]
    readers: Mapping[str, Callable[[Sequence[Any]], list[Any]]]
    """Per field: its objects in a sequence of messages."""
    type: pa.DataType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", struct_type(self.fields))

    def build(self, values: Sequence[Any]) -> pa.Array:
        nulls = None
        if NoneType in set(map(type, values)):
            nulls = pa.array([value is None for value in values])
            values = [self.empty if value is None else value for value in values]
        return struct_column(self.fields, self.type, lambda name: self.readers[name](values), nulls)


@dataclass(frozen=True, slots=True)
class MessageSchema:
    """A message type."""

    name: str
    parse: Callable[[bytes], Any]
    """Parse a message. Raises DecodeError."""
    shape: Shape


def read_message_schema(files: bytes, name: str | None) -> MessageSchema:
    """Return the message of a descriptor set; default: the first one of the last file.

    Raises UnusableSchema.
    """
    try:
        file_set = FileDescriptorSet.FromString(files)
    except DecodeError as error:
        raise UnusableSchema(
            "no Protobuf descriptor set; `protoc --include_imports --descriptor_set_out` writes one"
        ) from error
    if not file_set.file or (name is None and not file_set.file[-1].message_type):
        raise UnusableSchema("the descriptor set has no message")
    pool = _pool(file_set.file)
    if name is None:
        last = file_set.file[-1]
        name = ".".join(filter(None, (last.package, last.message_type[0].name)))
    try:
        descriptor = pool.FindMessageTypeByName(name)
    except KeyError as error:
        raise UnusableSchema(f"the descriptor set has no message {name}") from error
    shape = _message_shape(descriptor, "", ())
    return MessageSchema(
        descriptor.full_name, message_factory.GetMessageClass(descriptor).FromString, shape
    )


def _pool(files: Sequence[FileDescriptorProto]) -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    given = {file.name for file in files}
    for file in files:
        for name in file.dependency:
            if name in _WELL_KNOWN - given:
                given.add(name)
                pool.AddSerializedFile(_well_known(name))
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except TypeError as error:
            raise UnusableSchema(f"file {file.name}: {error}") from error
    return pool


def _well_known(name: str) -> bytes:
    module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    return bytes(module.DESCRIPTOR.serialized_pb)


def _message_shape(descriptor: Descriptor, where: str, outer: tuple[str, ...]) -> Shape:
    if descriptor.full_name == TIMESTAMP:
        return Instants()
    if descriptor.full_name in outer:
        raise UnusableSchema(f"field {where}: message {descriptor.full_name} contains itself")
    if not descriptor.fields:
        raise UnusableSchema(f"message {descriptor.full_name} has no fields")
    inside = (*outer, descriptor.full_name)
    return MessageStruct(
        message_factory.GetMessageClass(descriptor)(),
        {
            each.name: _field_shape(each, f"{where}.{each.name}".lstrip("."), inside)
            for each in descriptor.fields
        },
        {each.name: _field_reader(each) for each in descriptor.fields},
    )


def _field_shape(each: FieldDescriptor, where: str, outer: tuple[str, ...]) -> Shape:
    if _is_map(each):
        key, value = (each.message_type.fields_by_name[name] for name in ("key", "value"))
        return Mapped(_one_shape(key, where, outer), _one_shape(value, where, outer))
    one = _one_shape(each, where, outer)
    return Repeated(one) if each.is_repeated else one


def _one_shape(each: FieldDescriptor, where: str, outer: tuple[str, ...]) -> Shape:
    if each.message_type is not None:
        return _message_shape(each.message_type, where, outer)
    if each.enum_type is not None:
        return Names({value.number: value.name for value in each.enum_type.values})
    return _SCALARS[each.type]


def _field_reader(each: FieldDescriptor) -> Callable[[Sequence[Any]], list[Any]]:
    name = each.name
    if _is_map(each):
        return lambda messages: [dict(getattr(one, name).items()) for one in messages]
    if each.is_repeated:
        return lambda messages: [list(getattr(one, name)) for one in messages]
    if each.has_presence:
        return lambda messages: [
            getattr(one, name) if one.HasField(name) else None for one in messages
        ]
    return lambda messages: [getattr(one, name) for one in messages]


def _is_map(each: FieldDescriptor) -> bool:
    kind = each.message_type
    return kind is not None and bool(kind.GetOptions().map_entry)
