"""Decodes the keys or the values of a batch of records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from spark_global.values.declaring import PinnedPart, Registry
from spark_global.values.fetched import Fetched
from spark_global.values.formats.avro_schema import avro_shape, read_avro_schema
from spark_global.values.formats.avro_values import AvroReader
from spark_global.values.formats.json_schema import json_shape
from spark_global.values.formats.json_values import parse_values
from spark_global.values.formats.protobuf_schema import MessageSchema, read_message_schema
from spark_global.values.formats.protobuf_values import message_name, parse_messages
from spark_global.values.formats.shapes import Shape, build_column
from spark_global.values.header import HEADER_BYTES, read_message_indexes
from spark_global.values.not_decodable import NotDecodable, UnusableSchema
from spark_global.values.registry import fetch_schema
from spark_global.values.writers import Fetch, Writers, by_writer

Datacenters = Sequence[str | None]
Values = Sequence[bytes | None]
Parsed = tuple[list[Any], dict[int, str]]
"""Objects, None for what does not decode, and why, by index."""


@dataclass(frozen=True, slots=True)
class PartDecoder:
    """Decodes keys or values. It belongs to one task."""

    shape: Shape
    parse: Callable[[Datacenters, Values], Parsed]

    def decode(self, datacenters: Datacenters, values: Values) -> tuple[pa.Array, dict[int, str]]:
        """Return the column, null for what does not decode, and why, by index.

        Raises RegistryError.
        """
        objects, reasons = self.parse(datacenters, values)
        column, wrong = build_column(self.shape, objects)
        return column, {**reasons, **wrong}


def part_shape(part: PinnedPart) -> Shape:
    """Return the shape of a part's schema. Raises UnusableSchema."""
    match part.format:
        case "json":
            return json_shape(part.schema)
        case "avro":
            return avro_shape(_text(part.schema))
        case "protobuf":
            return read_message_schema(part.schema, part.message).shape


def part_decoder(
    part: PinnedPart, registries: Mapping[str, Registry], fetch: Fetch | None = None
) -> PartDecoder:
    """Return the decoder of a part. Raises UnusableSchema.

    `fetch` replaces the registries' HTTP in tests.
    """
    match part.format:
        case "json":
            return PartDecoder(json_shape(part.schema), lambda _, values: parse_values(values))
        case "avro":
            return _avro(part, registries, fetch or partial(fetch_schema, serialized=False))
        case "protobuf":
            return _protobuf(part, registries, fetch or partial(fetch_schema, serialized=True))


def _avro(part: PinnedPart, registries: Mapping[str, Registry], fetch: Fetch) -> PartDecoder:
    text = _text(part.schema)
    shape, reader = avro_shape(text), read_avro_schema((text,))
    if not part.is_framed:
        return PartDecoder(shape, _BareAvro(AvroReader(reader, reader)))

    def prepare(fetched: Fetched) -> AvroReader:
        if fetched.kind != "AVRO":
            raise NotDecodable(f"its schema is {fetched.kind} and not AVRO")
        return AvroReader(read_avro_schema(fetched.texts), reader)

    return PartDecoder(shape, _FramedAvro(Writers(registries, fetch, prepare)))


@dataclass(frozen=True, slots=True)
class _BareAvro:
    reader: AvroReader

    def __call__(self, _: Datacenters, values: Values) -> Parsed:
        parsed: Parsed = [None] * len(values), {}
        present = [index for index, value in enumerate(values) if value is not None]
        _place(self.reader, present, [value for value in values if value is not None], parsed)
        return parsed


@dataclass(frozen=True, slots=True)
class _FramedAvro:
    writers: Writers[AvroReader]

    def __call__(self, datacenters: Datacenters, values: Values) -> Parsed:
        parsed: Parsed = [None] * len(values), {}
        for (datacenter, schema_id), indexes in by_writer(datacenters, values, parsed[1]).items():
            reader = self.writers.find(datacenter, schema_id)
            if isinstance(reader, NotDecodable):
                parsed[1].update(dict.fromkeys(indexes, str(reader)))
                continue
            payloads = [(values[index] or b"")[HEADER_BYTES:] for index in indexes]
            _place(reader, indexes, payloads, parsed)
        return parsed


def _place(
    reader: AvroReader, indexes: Sequence[int], payloads: Sequence[bytes], parsed: Parsed
) -> None:
    objects, reasons = parsed
    for index, found in zip(indexes, reader.decode(payloads), strict=True):
        if isinstance(found, NotDecodable):
            reasons[index] = str(found)
        else:
            objects[index] = found


def _protobuf(part: PinnedPart, registries: Mapping[str, Registry], fetch: Fetch) -> PartDecoder:
    message = read_message_schema(part.schema, part.message)
    if not part.is_framed:
        return PartDecoder(message.shape, lambda _, values: parse_messages(message.parse, values))
    return PartDecoder(
        message.shape, _FramedProtobuf(message, Writers(registries, fetch, _own_descriptor))
    )


def _own_descriptor(fetched: Fetched) -> FileDescriptorProto:
    if fetched.kind != "PROTOBUF":
        raise NotDecodable(f"its schema is {fetched.kind} and not PROTOBUF")
    try:
        return FileDescriptorProto.FromString(fetched.descriptors[-1][1])
    except DecodeError as error:
        raise UnusableSchema("no Protobuf descriptor") from error


@dataclass(frozen=True, slots=True)
class _FramedProtobuf:
    message: MessageSchema
    writers: Writers[FileDescriptorProto]

    def __call__(self, datacenters: Datacenters, values: Values) -> Parsed:
        reasons: dict[int, str] = {}
        payloads: list[bytes | None] = [None] * len(values)
        known: dict[tuple[int, ...], str] = {}
        for (datacenter, schema_id), indexes in by_writer(datacenters, values, reasons).items():
            file = self.writers.find(datacenter, schema_id)
            known.clear()
            for index in indexes:
                value = values[index] or b""
                try:
                    if isinstance(file, NotDecodable):
                        raise file
                    path, start = read_message_indexes(value)
                    name = known.get(path) or known.setdefault(path, message_name(file, path))
                    if name != self.message.name:
                        raise NotDecodable(f"message {name}, expected {self.message.name}")
                    payloads[index] = value[start:]
                except NotDecodable as error:
                    reasons[index] = str(error)
        messages, wrong = parse_messages(self.message.parse, payloads)
        return messages, {**reasons, **wrong}


def _text(schema: bytes) -> str:
    try:
        return schema.decode()
    except UnicodeDecodeError as error:
        raise UnusableSchema("no UTF-8 text") from error
