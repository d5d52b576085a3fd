"""The header of a schema registry's serializers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_global.values.header import HEADER_BYTES, read_message_indexes, read_schema_id
from spark_global.values.not_decodable import NotDecodable

HEADER = b"\x00\x00\x00\x00\x07"


def zigzag(number: int) -> bytes:
    raw = number << 1 if number >= 0 else (-number << 1) - 1
    encoded = bytearray()
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*encoded, raw])


@given(st.integers(0, 2**32 - 1), st.binary(max_size=10))
def test_a_schema_id(schema_id: int, payload: bytes) -> None:
    assert read_schema_id(b"\x00" + schema_id.to_bytes(4, "big") + payload) == schema_id


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=64), st.binary(max_size=10))
def test_message_indexes(indexes: list[int], payload: bytes) -> None:
    value = HEADER + zigzag(len(indexes)) + b"".join(map(zigzag, indexes)) + payload
    found, start = read_message_indexes(value)
    assert found == tuple(indexes)
    assert value[start:] == payload


def test_a_single_zero_is_the_first_message() -> None:
    assert read_message_indexes(HEADER + b"\x00payload") == ((0,), HEADER_BYTES + 1)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "0 bytes, too few for a schema id"),
        (b"\x00\x00\x00\x00", "4 bytes, too few for a schema id"),
        (b'{"a": 1}', "magic byte 123, expected 0 and a schema id"),
    ],
)
def test_no_header(value: bytes, why: str) -> None:
    with pytest.raises(NotDecodable, match=why):
        read_schema_id(value)


@pytest.mark.parametrize(
    "indexes", [b"", b"\x80", b"\x04\x00", b"\xff" * 20, zigzag(65), zigzag(-1), b"\x02\x01"]
)
def test_bad_message_indexes(indexes: bytes) -> None:
    with pytest.raises(NotDecodable):
        read_message_indexes(HEADER + indexes)
