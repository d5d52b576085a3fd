"""Lines to records, and records to lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.records.input_lines import InputForm, InputRecord, InputRules, read_line
from topology.records.payloads import Encoding, decode, encode
from topology.records.shown_record import (
    FIELDS,
    Origin,
    ReadRecord,
    by_template,
    check_template,
    record_document,
)

RECORD = ReadRecord("t", 1, 7, 0, b"k", None, (("h", b"1"), ("h", None)))
AS_JSON = InputRules(form=InputForm.json)


def test_text_lines() -> None:
    rules = InputRules(key="k", headers=[("h", "1")], partition=2)
    assert read_line("a:b", rules) == InputRecord(b"k", b"a:b", (("h", b"1"),), 2, None)
    split = InputRules(separator=":")
    assert read_line("a:b:c", split) == InputRecord(b"a", b"b:c", (), None, None)
    with pytest.raises(ValueError, match="there is no key: the line has no ':'"):
        read_line("ab", split)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("1", "not a JSON object such as"),
        ("{}", "no `value`; null is a tombstone"),
        ('{"value": null, "ky": "x"}', "unknown key 'ky'; known are headers, key, partition"),
        ('{"value": null, "partition": -1}', "`partition` is not a number of 0 or more: -1"),
        ('{"value": null, "partition": true}', "`partition` is not a number"),
        ('{"value": null, "timestamp_ms": "x"}', "`timestamp_ms` is not a number"),
        ('{"value": null, "headers": [1]}', "`headers` is not"),
    ],
)
def test_json_lines_that_are_no_records(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_line(line, AS_JSON)


@pytest.mark.parametrize(
    ("text", "encoding"), [("0g", Encoding.hex), ("a", Encoding.base64), ("a b=", Encoding.base64)]
)
def test_text_that_stands_for_no_bytes(text: str, encoding: Encoding) -> None:
    with pytest.raises(ValueError, match=f"is not {encoding.value}"):
        decode(text, encoding)


PAYLOADS = st.none() | st.binary(max_size=20)


@given(
    key=PAYLOADS,
    value=PAYLOADS,
    headers=st.lists(st.tuples(st.text(max_size=5), PAYLOADS), max_size=3),
    encoding=st.sampled_from([Encoding.hex, Encoding.base64]),
)
def test_what_consume_writes_produce_reads(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    encoding: Encoding,
) -> None:
    record = ReadRecord("t", 3, 9, 1_000, key, value, tuple(headers))
    for origin in (None, Origin("jfk", "t", 0, 1)):
        line = json.dumps(record_document(record, encoding, origin))
        read = read_line(line, InputRules(form=InputForm.json, encoding=encoding))
        assert read == InputRecord(key, value, tuple(headers), 3, 1_000)


def test_text_shows_other_bytes_escaped() -> None:
    assert encode(b"a\xff", Encoding.text) == "a\\xff"


def test_an_unknown_origin_and_an_unknown_time_are_null() -> None:
    document = record_document(RECORD._replace(timestamp_ms=-1), Encoding.text, Origin(None))
    assert (document["time"], document["timestamp_ms"], document["datacenter"]) == (None,) * 3
    assert "datacenter" not in record_document(RECORD, Encoding.text)


def test_templates() -> None:
    template = check_template(r"{topic}\t{key}\n")
    document = record_document(RECORD, Encoding.text)
    assert by_template(template, document) == "t\tk\n"
    everything = " ".join(f"{{{name}}}" for name in FIELDS)
    shown = by_template(check_template(everything), document)
    assert shown == "t 1 7 1970-01-01T00:00:00.000Z 0 k null h=1,h=null null null null null"


@pytest.mark.parametrize("template", ["{", "{valu}", "{0}", "{key.x}"])
def test_other_templates_are_refused(template: str) -> None:
    with pytest.raises(ValueError, match="--format"):
        check_template(template)
