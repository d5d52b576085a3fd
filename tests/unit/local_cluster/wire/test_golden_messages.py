"""Each message of each served version, byte for byte as Kafka's Java classes write it.

`tests/golden/generate/Messages.java` writes frames and their content as JSON. Our encoder must turn
the JSON into Java's bytes, and our decoder must turn Java's bytes into the values of the JSON.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

import pytest

import local_cluster.handlers.all  # noqa: F401  (registers what is served)
from local_cluster.handlers.registry import advertised_apis
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from tests.golden.frames import Golden, check_header, fields_of, golden

BY_HAND = (ApiKey.PRODUCE, ApiKey.FETCH)
"""See test_golden_produce_fetch.py."""


def served() -> Iterator[Golden]:
    for handler in advertised_apis():
        if handler.api_key in BY_HAND:
            continue
        for line in golden(handler.api_key):
            if handler.min_version <= line.version <= handler.max_version:
                yield line


def test_each_served_version_has_golden_frames() -> None:
    for handler in advertised_apis():
        for kind in ("request", "response"):
            known = {line.version for line in golden(handler.api_key) if line.kind == kind}
            assert set(range(handler.min_version, handler.max_version + 1)) <= known


@pytest.mark.parametrize("line", list(served()), ids=str)
def test_as_java_writes_it(line: Golden) -> None:
    frame = memoryview(bytearray(line.frame))
    position = check_header(line, frame)
    body = bytes(frame[position:])
    request = line.kind == "request"
    schema = messages.load_schema(line.api_key, line.version, response=not request)
    encode = messages.encode_request if request else messages.encode_response
    decode = messages.decode_request if request else messages.decode_response
    values = fields_of(schema, line.body)
    assert encode(line.api_key, line.version, values).hex() == body.hex()
    check_values(decode(line.api_key, line.version, frame, position), values)


def check_values(told: Any, values: Any) -> None:
    """Assert that the decoded message has these values; it may have more, tagged fields."""
    if is_dataclass(told):
        for name, value in values.items():
            check_values(getattr(told, name), value)
    elif isinstance(told, tuple):
        assert len(told) == len(values)
        for entry, value in zip(told, values, strict=True):
            check_values(entry, value)
    elif isinstance(told, datetime.timedelta | datetime.datetime):
        assert messages.ms(told) == values
    else:
        assert told == values
