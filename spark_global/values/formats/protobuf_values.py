"""Protobuf values to messages. Pure.

A message is parsed by the schema of the columns: fields have numbers, so the schema that wrote it
is not needed. That one only says which message of its file it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError

from spark_global.values.not_decodable import NotDecodable


def parse_messages(
    parse: Callable[[bytes], Any], values: Sequence[bytes | None]
) -> tuple[list[Any], dict[int, str]]:
    """Return messages, None for what is none, and why, by index."""
    try:
        return [None if value is None else parse(value) for value in values], {}
    except DecodeError:
        pass
    messages: list[Any] = []
    reasons: dict[int, str] = {}
    for index, value in enumerate(values):
        try:
            messages.append(None if value is None else parse(value))
        except DecodeError:
            messages.append(None)
            reasons[index] = "no message of its Protobuf schema"
    return messages, reasons


def message_name(file: FileDescriptorProto, indexes: Sequence[int]) -> str:
    """Return the full name of the message that the indexes lead to. Raises NotDecodable."""
    names = [file.package] if file.package else []
    inside: Sequence[DescriptorProto] = file.message_type
    for index in indexes:
        if index >= len(inside):
            raise NotDecodable(f"its schema has no message {list(indexes)}")
        names.append(inside[index].name)
        inside = inside[index].nested_type
    return ".".join(names)
