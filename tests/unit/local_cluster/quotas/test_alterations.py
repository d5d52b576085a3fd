"""Changes of quotas: what is refused, and what is stored."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.controller.model.znode_json import UnreadableZnodeError
from local_cluster.quotas.alterations import Operation, checked_entity, has_duplicate_key, plan
from local_cluster.quotas.entity import CLIENT_ID, IP, USER, entity
from local_cluster.quotas.quota_keys import decode_values, java_double
from local_cluster.wire.errors import ErrorCode, KafkaError

ALICE = entity({USER: "alice"})
ADDRESS = entity({IP: "10.0.0.1"})


def test_operations_change_only_the_quotas_they_name() -> None:
    stored = {"SCRAM-SHA-256": "secret", "producer_byte_rate": "5", "request_percentage": "1.0"}
    operations = [
        Operation("producer_byte_rate", None),
        Operation("consumer_byte_rate", 1024.0),
        Operation("request_percentage", 12.5),
    ]
    assert plan(ALICE, operations)(stored) == {
        "SCRAM-SHA-256": "secret",
        "consumer_byte_rate": "1024",
        "request_percentage": "12.5",
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("producer_byte_rate", 0.0),
        ("producer_byte_rate", -1.0),
        ("producer_byte_rate", 1.5),
        ("producer_byte_rate", 1e19),
        ("request_percentage", math.nan),
        ("request_percentage", math.inf),
        ("connection_creation_rate", 1.0),
        ("moon", 1.0),
    ],
)
def test_values_of_no_use_are_refused(key: str, value: float) -> None:
    with pytest.raises(KafkaError) as refused:
        plan(ALICE, [Operation("consumer_byte_rate", 1.0), Operation(key, value)])
    assert refused.value.code is ErrorCode.invalid_request


def test_an_unknown_quota_may_be_deleted() -> None:
    assert plan(ALICE, [Operation("moon", None)])({"moon": "1"}) == {}


def test_addresses_have_one_quota_of_their_own() -> None:
    operations = [Operation("connection_creation_rate", 7.0)]
    assert plan(ADDRESS, operations)({}) == {"connection_creation_rate": "7"}
    for key, value in (("producer_byte_rate", 1.0), ("connection_creation_rate", 2.0**31)):
        with pytest.raises(KafkaError):
            plan(ADDRESS, [Operation(key, value)])


@pytest.mark.parametrize(
    "names",
    [
        {},
        {"moon": "x"},
        {USER: ""},
        {IP: "localhost"},
        {IP: "10.0.0.1", USER: "a"},
        {IP: None, CLIENT_ID: None},
    ],
)
def test_entities_without_quotas_are_refused(names: dict[str, str | None]) -> None:
    with pytest.raises(KafkaError):
        checked_entity(names)


def test_a_quota_is_named_once() -> None:
    assert has_duplicate_key([Operation("a", 1.0), Operation("a", None)])
    assert not has_duplicate_key([Operation("a", 1.0), Operation("b", 1.0)])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12.5, "12.5"),
        (3.0, "3.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12_345_678.5, "1.23456785E7"),
        (1e16, "1.0E16"),
        (1.5e300, "1.5E300"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text


@given(st.floats(min_value=0, exclude_min=True, allow_infinity=False))
def test_what_is_stored_is_read_back(value: float) -> None:
    stored = plan(ALICE, [Operation("request_percentage", value)])({})
    assert decode_values(ALICE, stored) == {"request_percentage": value}


def test_other_configs_are_no_quotas() -> None:
    stored = {"SCRAM-SHA-256": "secret", "producer_byte_rate": "5"}
    assert decode_values(ALICE, stored) == {"producer_byte_rate": 5.0}
    with pytest.raises(ValueError, match="fast"):
        decode_values(ALICE, {"producer_byte_rate": "fast"})
    for value in ("nan", "inf", "-1", "1e999"):
        with pytest.raises(UnreadableZnodeError):
            decode_values(ALICE, {"producer_byte_rate": value})
