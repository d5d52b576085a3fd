"""JSON that others wrote: what is refused, always by ValueError."""

from __future__ import annotations

import json

import pytest

from local_cluster.foreign_json import INT32_MAX, integer, parse_json, parse_object, string


def test_a_document_is_read() -> None:
    document = {"a": [1, -2, 0.5, True, None, "\u00fc\U0001f600"], "b": {}}
    assert parse_object(json.dumps(document).encode()) == document
    assert parse_object(json.dumps(document, ensure_ascii=False).encode()) == document


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"1e999",
        b"NaN",
        b"-Infinity",
        b"9" * 5_000,
        b'"\\ud800"',
        b'{"\\uDFFF":1}',
        b'"\xed\xa0\x80"',
        '{"a": 1}'.encode("utf-16"),
    ],
    ids=range(13),
)
def test_anything_else_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(content)


def test_an_escaped_pair_of_surrogates_is_a_character() -> None:
    assert parse_json(b'"\\ud83d\\ude00"') == "\U0001f600"


@pytest.mark.parametrize("value", [None, True, 1.0, "1", [], -1, INT32_MAX + 1])
def test_integers_are_integers_within_their_bounds(value: object) -> None:
    with pytest.raises(ValueError):
        integer(value, 0, INT32_MAX)
    assert integer(INT32_MAX, 0, INT32_MAX) == INT32_MAX


def test_strings_are_strings() -> None:
    assert string("") == ""
    with pytest.raises(ValueError):
        string(1)
