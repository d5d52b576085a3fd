"""The schemas of a topic: read from their files, which are written once if they do not exist.

A pinned schema fixes the columns. A new field of a producer becomes a column when the file gets it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from local_cluster.client.auth.security import SecurityError
from spark_global.values.declaring import Decoding, PartDecoding, PinnedPart, PinnedTopic
from spark_global.values.fetched import Fetched
from spark_global.values.formats.json_inference import infer_schema
from spark_global.values.formats.json_values import parse_values
from spark_global.values.not_decodable import NotDecodable, SchemaFileError, UnusableSchema
from spark_global.values.record_decoder import part_shape
from spark_global.values.registry import RegistryError, fetch_latest

SAMPLES_MAX: Final = 10_000
"""Most records from which the schema of JSON values is inferred."""

Samples = Callable[[str], Iterable[bytes]]
"""Some keys or values of the topic, by the name of the part."""


def pin_topic(decoding: Decoding, topic: str, samples: Samples) -> PinnedTopic:
    """Return the schemas of a topic, and write files that do not exist. Raises SchemaFileError."""
    parts = {
        name: _pin(decoding, topic, name, part, samples)
        for name, part in decoding.topics[topic].parts.items()
    }
    return PinnedTopic(parts=parts, registries=decoding.registries)


def _pin(
    decoding: Decoding, topic: str, name: str, part: PartDecoding, samples: Samples
) -> PinnedPart:
    file = Path(part.schema)
    is_framed = bool(decoding.registries) if part.framed is None else part.framed
    try:
        is_new = not file.exists()
        if not is_new:
            schema = file.read_bytes()
        elif is_framed and decoding.registries:
            schema = _from_registry(decoding, f"{topic}-{name}", part)
        elif part.format == "json":
            schema = _inferred(samples(name))
        else:
            raise UnusableSchema("the file does not exist, and there is no registry to write it")
        pinned = PinnedPart(
            format=part.format, schema=schema, is_framed=is_framed, message=part.message
        )
        part_shape(pinned)
        if is_new:
            _write(file, schema)
    except (OSError, SecurityError, UnusableSchema, NotDecodable, RegistryError) as error:
        raise SchemaFileError(f"schema file {file} of {topic}, {name}: {error}") from error
    return pinned


def _inferred(values: Iterable[bytes]) -> bytes:
    parsed, reasons = parse_values(list(values))
    objects = [each for index, each in enumerate(parsed) if index not in reasons]
    if not objects:
        raise UnusableSchema("there is no JSON yet from which it could be inferred")
    return json.dumps(infer_schema(objects), indent=2).encode() + b"\n"


def _from_registry(decoding: Decoding, subject: str, part: PartDecoding) -> bytes:
    registry = next(iter(decoding.registries.values()))
    fetched = fetch_latest(registry, subject, serialized=part.format == "protobuf")
    if fetched.kind.lower() != part.format:
        raise UnusableSchema(f"subject {subject} is {fetched.kind} and not {part.format.upper()}")
    if part.format == "protobuf":
        return _descriptor_set(fetched, subject)
    if len(fetched.files) > 1:
        raise UnusableSchema(f"subject {subject} refers to other schemas; write the file yourself")
    return fetched.texts[-1].encode()


def _descriptor_set(fetched: Fetched, subject: str) -> bytes:
    files = []
    for name, descriptor in fetched.descriptors:
        try:
            file = FileDescriptorProto.FromString(descriptor)
        except DecodeError as error:
            raise UnusableSchema(f"subject {subject} has no Protobuf descriptor") from error
        file.name = name or file.name or f"{subject}.proto"
        files.append(file)
    return bytes(FileDescriptorSet(file=files).SerializeToString())


def _write(file: Path, schema: bytes) -> None:
    """Write a file whole or not at all."""
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as written:
            written.write(schema)
        Path(name).replace(file)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
