"""Read tests/golden/messages: frames that Kafka's Java classes wrote, with their content."""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, get_type_hints

from local_cluster.wire.api import ApiKey
from local_cluster.wire.header import (
    encode_request_header,
    encode_response_header,
    read_request_header,
    read_response_header,
)
from local_cluster.wire.schemas import kio_schema

DIRECTORY = Path(__file__).parent / "messages"
CORRELATION_ID = 4711
CLIENT_ID = "golden-cl\u00efent"
Json = Mapping[str, Any]


class Golden(NamedTuple):
    """One line of a golden file."""

    api_key: int
    kind: str
    version: int
    variant: str
    frame: bytes
    body: Json

    def __str__(self) -> str:
        return f"{ApiKey(self.api_key).name}-{self.kind}-v{self.version}-{self.variant}"


@lru_cache
def golden(api_key: int) -> list[Golden]:
    (path,) = DIRECTORY.glob(f"{api_key:02d}_*.txt")
    lines = (line.split(" ", 4) for line in path.read_text("utf-8").splitlines())
    return [
        Golden(api_key, kind, int(version), variant, bytes.fromhex(frame), json.loads(body))
        for kind, version, variant, frame, body in lines
    ]


def check_header(line: Golden, frame: memoryview) -> int:
    """Check the header against our encoder; return the position of the body."""
    if line.kind == "response":
        correlation_id, position = read_response_header(line.api_key, line.version, frame)
        assert correlation_id == CORRELATION_ID
        ours = encode_response_header(line.api_key, line.version, CORRELATION_ID)
    else:
        header = read_request_header(frame)
        position = header.body_position
        assert header == (line.api_key, line.version, CORRELATION_ID, CLIENT_ID, position)
        ours = encode_request_header(line.api_key, line.version, CORRELATION_ID, CLIENT_ID)
    assert ours == bytes(frame[:position])
    return position


def snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", lambda match: "_" + match[1].lower(), name)


RENAMED: Final = {"generation_id_or_member_epoch": "generation_id"}
"""Fields that Kafka 4.4 has renamed in all versions -> their names in kio."""


def fields_of(schema: Any, body: Json) -> dict[str, Any]:
    """Return Kafka's JSON as the mapping of field names for our encoder."""
    left = {snake(name).removesuffix("_ms"): value for name, value in body.items()}
    hints = get_type_hints(schema)
    for name, former in RENAMED.items():
        if name in left and name not in hints:
            left[former] = left.pop(name)
    values = {}
    for field in fields(schema):
        name = field.name.removesuffix("_ms")
        if name in left:
            values[field.name] = value_of(
                left.pop(name), hints[field.name], field.metadata.get("kafka_type", "")
            )
    assert not left, f"{schema.__module__} has no such field"
    return values


def value_of(value: Any, hint: Any, kafka_type: str) -> Any:
    nested = kio_schema.nested_schema(hint)
    if isinstance(value, list):
        element = nested or kafka_type
        return [
            fields_of(element, entry) if nested else value_of(entry, None, kafka_type)
            for entry in value
        ]
    if nested and value is not None:
        return fields_of(nested, value)
    if value is not None and kafka_type in ("bytes", "records"):
        return base64.b64decode(value)
    if kafka_type == "uuid":
        return uuid_of(value)
    return value


def uuid_of(text: str) -> uuid.UUID | None:
    """Read Kafka's text of a topic id; None for the zero id."""
    found = uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    return found if found.int else None
