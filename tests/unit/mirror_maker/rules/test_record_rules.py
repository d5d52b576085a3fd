"""Filters and transforms of records: which records are copied, and how."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, Record, decode_batch, encode_batch
from mirror_maker.copy.batch_selection import CopyPath, select_batches
from mirror_maker.copy.passthrough import prepare
from mirror_maker.rules.json_pointer import (
    DEPTH_MAX,
    NotJsonError,
    edit_field,
    parse_json,
    parse_pointer,
)
from mirror_maker.rules.record_rules import RecordRules, build_rules
from mirror_maker.rules.rule_settings import RecordFilter, Transforms, fingerprint
from mirror_maker.settings import LinkSettings, MirrorSettings, dump_settings, parse_settings

_FILTER: TypeAdapter[RecordFilter] = TypeAdapter(RecordFilter)
_TRANSFORMS: TypeAdapter[Any] = TypeAdapter(Transforms)

ORDER = (
    b'{"customer": {"name": "Ada", "vip": true}, "n": 1, "lines": [{"sku": "x-1"}], "note": null}'
)


def rules(said: Any = None, transforms: Any = ()) -> RecordRules:
    return RecordRules(_FILTER.validate_python(said or {}), _TRANSFORMS.validate_python(transforms))


def record(value: bytes | None = ORDER, key: bytes | None = b"k1", *headers: Any) -> Record:
    return Record(7, 1_000, key, value, headers)


def is_kept(condition: dict[str, Any], one: Record) -> bool:
    """Return whether `keep` copies the record; check that `drop` does the opposite."""
    kept = rules({"keep": [condition]}).apply(one)
    assert (rules({"drop": [condition]}).apply(one) is None) is (kept is not None)
    assert kept is None or kept is one, "a filter changes nothing"
    return kept is not None


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"key": {"equals": "k1"}}, True),
        ({"key": {"equals": "k"}}, False),
        ({"key": {"matches": "k[0-9]"}}, True),
        ({"key": {"matches": "k"}}, False),
        ({"key": {}}, True),
        ({"header": "kind"}, True),
        ({"header": "other"}, False),
        ({"header": "kind", "equals": "b"}, True),
        ({"header": "kind", "equals": "c"}, False),
        ({"header": "kind", "matches": "[ab]"}, True),
        ({"header": "null", "matches": ".*"}, False),
        ({"header": "null"}, True),
        ({"value": {"json": ""}}, True),
        ({"value": {"json": "/customer/name", "equals": "Ada"}}, True),
        ({"value": {"json": "/customer/name", "matches": "A.*"}}, True),
        ({"value": {"json": "/customer/name", "matches": "A"}}, False),
        ({"value": {"json": "/customer/vip", "equals": True}}, True),
        ({"value": {"json": "/customer/vip", "equals": 1}}, False),
        ({"value": {"json": "/n", "equals": 1}}, True),
        ({"value": {"json": "/n", "equals": True}}, False),
        ({"value": {"json": "/n", "equals": "1"}}, False),
        ({"value": {"json": "/n", "matches": "1"}}, False),
        ({"value": {"json": "/note"}}, True),
        ({"value": {"json": "/lines/0/sku", "equals": "x-1"}}, True),
        ({"value": {"json": "/lines/1/sku"}}, False),
        ({"value": {"json": "/lines/00/sku"}}, False),
        ({"value": {"json": "/customer/name/x"}}, False),
    ],
)
def test_conditions(condition: dict[str, Any], expected: bool) -> None:
    one = record(ORDER, b"k1", ("kind", b"a"), ("kind", b"b"), ("null", None))
    assert is_kept(condition, one) is expected


@pytest.mark.parametrize(
    "value", [None, b"", b"{", b"\xff", b'{"a": NaN}', b"{} {}", b"[" * 5_000, b'"\\" \\" \\"']
)
def test_values_that_are_not_json_meet_no_condition_and_stay(value: bytes | None) -> None:
    one = record(value)
    assert not is_kept({"value": {"json": ""}}, one)
    for transform in ({"drop_field": "/a"}, {"mask_field": "/a"}):
        assert rules(None, [transform]).apply(one) is one


def test_bytes_that_are_not_text_match_nothing() -> None:
    assert not is_kept({"key": {"matches": "(?s).*"}}, record(ORDER, b"\xff"))
    assert is_kept({"key": {}}, record(ORDER, b"\xff"))
    assert not is_kept({"key": {}}, record(ORDER, None))


def test_any_of_keep_and_none_of_drop() -> None:
    chosen = rules(
        {
            "keep": [{"key": {"equals": "a"}}, {"key": {"equals": "b"}}],
            "drop": [{"header": "test"}],
        }
    )
    assert chosen.apply(record(None, b"a")) is not None
    assert chosen.apply(record(None, b"b")) is not None
    assert chosen.apply(record(None, b"c")) is None
    assert chosen.apply(record(None, b"a", ("test", b""))) is None


def test_headers_are_set_and_dropped_in_order() -> None:
    changes = [{"set_header": {"name": "from", "value": "é"}}, {"drop_header": "secret"}]
    one = record(ORDER, b"k", ("from", b"x"), ("secret", None), ("n", b"1"), ("from", b"y"))
    changed = rules(None, changes).apply(one)
    assert changed == one._replace(headers=(("n", b"1"), ("from", "é".encode())))
    assert rules(None, changes[::-1]).apply(one) == changed
    alone = record()
    assert rules(None, [{"drop_header": "secret"}]).apply(alone) is alone


@pytest.mark.parametrize(
    ("value", "pointer", "masked", "dropped"),
    [
        ('{"a":1,"b":2}', "/a", '{"a":"***","b":2}', '{"b":2}'),
        ('{"a":1,"b":2}', "/b", '{"a":1,"b":"***"}', '{"a":1}'),
        ('{"a":1}', "/a", '{"a":"***"}', "{}"),
        ('{ "a" : 1 }', "/a", '{ "a" : "***" }', "{}"),
        ('{"a":1,"b":2,"a":3}', "/a", '{"a":"***","b":2,"a":"***"}', '{"b":2}'),
        ('{"a":{"x":1},"a":{"y":2}}', "/a/x", '{"a":{"x":"***"},"a":{"y":2}}', None),
        ('{"\\u0061":1,"z":"é"}', "/a", '{"\\u0061":"***","z":"é"}', '{"z":"é"}'),
        ('{"a/b":{"~":[]}}', "/a~1b/~0", '{"a/b":{"~":"***"}}', '{"a/b":{}}'),
        ("[1,[2, 3],4]", "/1/0", '[1,["***", 3],4]', "[1,[3],4]"),
        ('{"n":1.10,"m":12345678901234567890.5,"s":{}}', "/s", None, None),
    ],
)
def test_fields_are_edited_in_place(
    value: str, pointer: str, masked: str | None, dropped: str | None
) -> None:
    tokens = parse_pointer(pointer)
    if masked is None:
        masked, dropped = value.replace("{}", '"***"'), value.replace(',"s":{}', "")
    if dropped is None:
        dropped = value.replace('"x":1', "")
    assert edit_field(value.encode(), tokens, '"***"') == masked.encode()
    assert edit_field(value.encode(), tokens, None) == dropped.encode()
    parse_json(masked.encode())
    parse_json(dropped.encode())


@pytest.mark.parametrize("pointer", ["/x", "/customer/x", "/n/x", "/lines/1", "/lines/sku"])
def test_a_missing_field_changes_nothing(pointer: str) -> None:
    assert edit_field(ORDER, parse_pointer(pointer), None) is ORDER
    assert edit_field(ORDER, parse_pointer(pointer), '"***"') is ORDER


def test_the_depth_limit_of_json_does_not_depend_on_the_stack() -> None:
    deepest = b"[" * DEPTH_MAX + b"]" * DEPTH_MAX
    parse_json(deepest)
    parse_json(b'["' + b"[" * 10_000 + b'"]')
    parse_json(b"[" + b"[]," * 10_000 + b"[]]")
    with pytest.raises(NotJsonError):
        parse_json(b"[" + deepest + b"]")


@pytest.mark.parametrize(
    "said",
    [
        {"keep": [{}]},
        {"keep": [{"header": "a", "key": {}}]},
        {"keep": [{"key": {"equals": "a", "matches": "b"}}]},
        {"keep": [{"key": {}, "equals": "a"}]},
        {"keep": [{"key": {"matches": "("}}]},
        {"keep": [{"value": {"json": "a"}}]},
        {"keep": [{"value": {"json": "/~2"}}]},
        {"keep": [{"value": {"json": "/a", "equals": float("nan")}}]},
        {"kept": []},
    ],
)
def test_half_a_condition_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        _FILTER.validate_python(said)


@pytest.mark.parametrize("said", [{}, {"drop_field": ""}, {"drop_field": "/a", "mask_field": "/a"}])
def test_half_a_transform_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        _TRANSFORMS.validate_python([said])


def link(**said: Any) -> LinkSettings:
    adapter: TypeAdapter[LinkSettings] = TypeAdapter(LinkSettings)
    return adapter.validate_python(
        {"name": "x", "source_alias": "p", "source_bootstrap": "-", **said}
    )


def test_rules_are_a_term_of_the_link_that_survives_its_settings_file() -> None:
    assert link().terms == {}
    assert build_rules(RecordFilter(), ()) is None
    said: list[dict[str, Any]] = [
        {"filter": {"keep": [{"value": {"json": "/a", "equals": value}}]}}
        for value in (1, True, "1", 1.5)
    ]
    said += [
        {"filter": {"drop": [{"value": {"json": "/a", "equals": 1}}]}},
        {"transform": [{"mask_field": "/a"}]},
        {"transform": [{"drop_field": "/a"}]},
        {"transform": [{"drop_field": "/a"}, {"mask_field": "/b"}]},
        {"transform": [{"mask_field": "/b"}, {"drop_field": "/a"}]},
    ]
    links = [link(**each) for each in said]
    terms = [each.terms["records"] for each in links]
    assert len(set(terms)) == len(terms)
    for each in links:
        settings = MirrorSettings(
            worker_id="w", target_alias="t", target_bootstrap="-", links=(each,), ready_file="r"
        )
        again = parse_settings(dump_settings(settings)).links[0]
        assert again.terms == each.terms


def test_fingerprints_never_change() -> None:
    """Another fingerprint of the same rules would stop every link that has them."""
    one = link(
        filter={"keep": [{"key": {"matches": "k.*"}}, {"value": {"json": "/a", "equals": 1}}]},
        transform=[{"set_header": {"name": "a", "value": "b"}}, {"mask_field": "/a"}],
    )
    assert fingerprint(one.filter, one.transform) == "1-422f2af2d964dedb215faeb8e8d6055f"


@pytest.mark.parametrize("codec", [0, 3])
def test_every_batch_is_encoded_again_and_left_out_records_are_holes(codec: int) -> None:
    one = rules({"drop": [{"key": {"matches": "x.*"}}]}, [{"drop_header": "h"}])
    keys = [b"x0", b"a1", b"a2", b"x3", b"a4", b"x5"]
    batches = [
        encode_batch(
            [NewRecord(1_000 + n, key, b"v", (("h", b""),)) for n, key in enumerate(some)],
            base_offset=offset,
            codec=codec,
        )
        for offset, some in ((10, keys), (16, [b"x"] * 3), (19, [b"a"]), (20, [b"b"]))
    ]
    log = memoryview(bytearray(b"".join(batches)))
    selection = select_batches(log, 10, (), coalesces=True, rules=one)
    assert [each.path for each in selection.batches] == [CopyPath.RULES] * 4
    assert selection.source_next == 21
    assert prepare(selection.batches[1]) is None
    prepared = prepare(selection.batches[0])
    assert prepared is not None
    assert (prepared.source_first, prepared.source_next) == (10, 16)
    assert prepared.segments == ((11, 2), (14, 1))
    header = h.read_header(prepared.data)
    assert (header.records_count, header.last_offset_delta, header.codec) == (3, 2, codec)
    copied = [
        (each.offset, each.key, each.headers) for each in decode_batch(prepared.data, 0, header)
    ]
    assert copied == [(0, b"a1", ()), (1, b"a2", ()), (2, b"a4", ())]
