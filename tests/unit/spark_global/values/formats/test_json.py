"""JSON values become columns with strict types, or rejects with a reason."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_global.values.formats.json_inference import FIELDS_MAX, infer_schema
from spark_global.values.formats.json_schema import json_shape
from spark_global.values.formats.json_values import parse_values
from spark_global.values.formats.shapes import build_column
from spark_global.values.not_decodable import UnusableSchema

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "amount": {"type": ["number", "null"]},
        "name": {"anyOf": [{"type": "null"}, {"type": "string"}]},
        "paid": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "at": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "extra": {},
    },
    "required": ["id"],
}


def decode(schema: dict[str, Any], *texts: bytes | None) -> tuple[list[Any], dict[int, str]]:
    objects, reasons = parse_values(texts)
    column, wrong = build_column(json_shape(json.dumps(schema).encode()), objects)
    column.validate(full=True)
    return column.to_pylist(), reasons | wrong


def test_every_kind_of_field() -> None:
    full = {
        "id": 1,
        "amount": 2,
        "name": "n",
        "paid": True,
        "tags": ["a", None],
        "at": {"x": 5, "unknown": 1},
        "counts": {"k": 7},
        "extra": {"any": [1, "x"]},
        "new": "a field that the schema does not have",
    }
    rows, reasons = decode(
        SCHEMA, json.dumps(full).encode(), b"{}", None, b"null", b'\x00\x00\x00\x00\x09{"id": 1.0}'
    )
    assert not reasons
    nothing = dict.fromkeys(SCHEMA["properties"])
    assert rows == [
        {
            **{name: full[name] for name in nothing},
            "at": {"x": 5},
            "counts": [("k", 7)],
            "extra": '{"any":[1,"x"]}',
        },
        nothing,
        None,
        None,
        {**nothing, "id": 1},
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "no JSON"),
        (b"flights", "no JSON"),
        (b'{"id": 1} {"id": 2}', "no JSON"),
        (b'{"id": 1', "no JSON"),
        (b'{"name": "\xff"}', "no JSON"),
        (b"[1]", "a list, expected an object"),
        (b'"text"', "text, expected an object"),
        (b'{"id": 1.5}', "field id: a number, expected a whole number"),
        (b'{"id": true}', "field id: a truth value, expected a whole number"),
        (b'{"id": "1"}', "field id: text, expected a whole number"),
        (b'{"id": 9223372036854775808}', "field id: a value that int64 cannot hold"),
        (b'{"amount": true}', "field amount: a truth value, expected a number or a whole number"),
        (b'{"amount": 9007199254740993}', "field amount: a value that double cannot hold"),
        (b'{"name": 1}', "field name: a whole number, expected text"),
        (b'{"tags": "ab"}', "field tags: text, expected a list"),
        (b'{"tags": ["a", 1]}', r"field tags.\[\]: a whole number, expected text"),
        (b'{"at": {"x": "5"}}', "field at.x: text, expected a whole number"),
        (b'{"counts": {"k": "7"}}', "field counts.{}: text, expected a whole number"),
    ],
)
def test_a_reject_has_its_reason_and_no_value(text: bytes, why: str) -> None:
    good = b'{"id": 1, "tags": [], "at": {}}'
    rows, reasons = decode(SCHEMA, good, text, good)
    assert reasons.keys() == {1}
    assert re.match(why, reasons[1])
    assert rows[1] is None
    assert rows[0] == rows[2]
    assert rows[0]["id"] == 1


numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(values, max_size=8), st.randoms(use_true_random=False))
def test_an_inferred_schema_decodes_its_samples(objects: list[Any], order: random.Random) -> None:
    schema = infer_schema(objects)
    texts = [json.dumps(each, ensure_ascii=False).encode() for each in objects if _is_text(each)]
    rows, reasons = decode(infer_schema([json.loads(text) for text in texts]), *texts)
    assert not reasons
    assert len(rows) == len(texts)
    shuffled = list(objects)
    order.shuffle(shuffled)
    assert infer_schema(shuffled) == schema


def _is_text(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def test_inference() -> None:
    schema = infer_schema(
        [
            {"id": 1, "x": 1, "y": 1, "tags": [], "none": None},
            {"id": 2, "x": 1.5, "y": "z", "tags": ["a"], "none": None},
        ]
    )
    assert schema == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "none": {},
            "tags": {"type": "array", "items": {"type": "string"}},
            "x": {"type": "number"},
            "y": {},
        },
    }
    assert infer_schema([{str(index): 1 for index in range(FIELDS_MAX + 1)}]) == {}


def test_bad_values_are_found_exactly() -> None:
    texts = [b'{"id": %d}' % index if index % 7 else b'{"id": "x"}' for index in range(100)]
    rows, reasons = decode(SCHEMA, *texts)
    assert sorted(reasons) == list(range(0, 100, 7))
    assert [row["id"] for row in rows if row is not None] == [i for i in range(100) if i % 7]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (b"{", "no JSON"),
        (b"[]", "expected a JSON Schema"),
        (b'{"properties": {"a": {"type": "text"}}}', "field a: expected a `type`"),
        (b'{"properties": {"a": {"$ref": "#/x"}}}', "field a: expected a `type`"),
        (b'{"properties": {"a": {"type": ["string", "integer"]}}}', "field a: several types"),
    ],
)
def test_an_unusable_schema(schema: bytes, why: str) -> None:
    with pytest.raises(UnusableSchema, match=why):
        json_shape(schema)


def test_the_type_of_a_column() -> None:
    shape = json_shape(json.dumps(SCHEMA).encode())
    assert shape.type.field("counts").type == pa.map_(pa.string(), pa.int64())
    assert shape.type.field("extra").type == pa.string()
