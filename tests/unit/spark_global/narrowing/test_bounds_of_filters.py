"""Every record for which a filter is true lies within the bounds that are made of the filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_global.narrowing.predicates import (
    Compare,
    Either,
    Every,
    OneOf,
    Operator,
    Predicate,
    Unknown,
    Value,
    hull_of,
    region_of,
)
from spark_global.narrowing.regions import LISTED_MAX, NAMES, NUMBERS, Region, Span
from spark_global.source.options import parse_options

Record = Mapping[str, str | int | None]

NAME_VALUES = ("EWR", "JFK", "a,b", " x", "")
FIRST_S = 1_356_998_400
"""1 January 2013, in seconds."""

names = st.sampled_from(NAME_VALUES)
numbers = st.integers(-3, 12)
times = st.one_of(
    st.integers(-3_000, 3_000),
    st.integers(0, 3_000_000).map(lambda us: FIRST_S * 1_000_000 + us),
    st.sampled_from([2**63 - 1, -(2**63)]),
)


def values_of(column: str) -> st.SearchStrategy[Value]:
    if column in NAMES:
        return names
    return times if column == "timestamp" else numbers


records = st.fixed_dictionaries(
    {
        "datacenter": st.none() | names,
        "topic": names,
        "aggregate_topic": names,
        "partition": st.integers(0, 12),
        "offset": st.none() | st.integers(0, 12),
        "aggregate_offset": st.integers(0, 12),
        # A broker has milliseconds, and -1 for a record without a time.
        "timestamp": times.map(lambda us: us // 1_000 * 1_000),
    }
)
columns = st.sampled_from(sorted(NAMES | NUMBERS))


@st.composite
def leaves(draw: st.DrawFn) -> Predicate:
    column = draw(columns)
    value = st.none() | values_of(column) | st.just("7") | st.just(5)
    match draw(st.integers(0, 4)):
        case 0:
            return Unknown()
        case 1:
            return OneOf(column, tuple(draw(st.lists(value, max_size=3))))
        case _:
            return Compare(column, draw(st.sampled_from(Operator)), draw(value))


predicates = st.recursive(
    leaves(),
    lambda parts: (
        st.builds(Every, st.tuples(parts, parts)) | st.builds(Either, st.tuples(parts, parts))
    ),
    max_leaves=8,
)


def is_true(predicate: Predicate, record: Record) -> bool:
    """Return whether a filter may let a record through; `Unknown` may let any."""
    match predicate:
        case Compare(column, operator, value):
            found = record[column]
            if found is None or value is None:
                return False
            # Spark would cast one of two types, to what is not modelled here.
            return type(found) is not type(value) or COMPARE[operator](found, value)
        case OneOf(column, values):
            return any(is_true(Compare(column, Operator.EQUAL, each), record) for each in values)
        case Every(parts):
            return all(is_true(part, record) for part in parts)
        case Either(parts):
            return any(is_true(part, record) for part in parts)
        case Unknown():
            return True


COMPARE: Mapping[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: eq,
    Operator.LESS: lt,
    Operator.AT_MOST: le,
    Operator.GREATER: gt,
    Operator.AT_LEAST: ge,
}


def is_read(options: Mapping[str, str], record: Record) -> bool:
    """Return whether a read with options has a record."""
    bounds = parse_options({"bootstrap": "h:1", **options}).bounds
    named = {
        "datacenter": bounds.datacenters,
        "topic": bounds.source_topics,
        "aggregate_topic": bounds.aggregate_topics,
        "partition": bounds.partitions,
    }
    if any(listed and record[column] not in listed for column, listed in named.items()):
        return False
    spans = {"offset": bounds.offsets, "aggregate_offset": bounds.aggregate_offsets}
    for column, span in spans.items():
        offset = record[column]
        if (span.first, span.end) == (None, None):
            continue
        if not isinstance(offset, int) or not Span(span.first, span.end).has(offset):
            return False
    at_us = record["timestamp"]
    assert isinstance(at_us, int)
    first = bounds.timestamp_ms_first
    return first is None or at_us // 1_000 >= max(0, first)


@given(predicates, records)
def test_a_record_that_a_filter_lets_through_is_read(predicate: Predicate, record: Record) -> None:
    region = region_of(predicate)
    if is_true(predicate, record):
        assert region.has(record)
        assert is_read(region.options(), record)


@given(st.lists(predicates, min_size=1, max_size=4), records)
def test_what_any_use_of_a_load_needs_is_read(filters: list[Predicate], record: Record) -> None:
    region = hull_of([region_of(each) for each in filters])
    if any(is_true(each, record) for each in filters):
        assert region.has(record)
        assert is_read(region.options(), record)


def at(column: str, operator: str, value: Value) -> Predicate:
    return Compare(column, Operator(operator), value)


@pytest.mark.parametrize(
    ("predicate", "options"),
    [
        (at("datacenter", "=", "JFK"), {"datacenters": "JFK"}),
        (at("datacenter", "<", "JFK"), {}),
        (at("datacenter", "=", "a,b"), {}),
        (at("datacenter", "=", None), {}),
        (OneOf("datacenter", ("JFK", None, "EWR")), {"datacenters": "EWR,JFK"}),
        (at("topic", "=", "flights"), {"source_topics": "flights"}),
        (at("aggregate_topic", "=", "jfk.flights"), {"aggregate_topics": "jfk.flights"}),
        (at("partition", "<", 3), {"partitions": "0,1,2"}),
        (at("partition", "<=", LISTED_MAX), {}),
        (at("partition", ">", 3), {}),
        (Every((at("partition", ">=", 2), at("partition", "<=", 3))), {"partitions": "2,3"}),
        (Every((at("partition", "=", 1), at("partition", "=", 2))), {}),
        (at("offset", "=", 5), {"offset_first": "5", "offset_end": "6"}),
        (at("offset", ">", -4), {}),
        (
            OneOf("aggregate_offset", (9, 4)),
            {"aggregate_offset_first": "4", "aggregate_offset_end": "10"},
        ),
        (at("offset", "<=", 2**63 - 1), {}),
        (at("offset", "<", -5), {}),
        (at("timestamp", ">=", 1_500), {"timestamp_first": "1970-01-01T00:00:00.001000+00:00"}),
        (at("timestamp", ">", -1), {}),
        (at("timestamp", ">", 2**63 - 1), {}),
        (at("timestamp", "<", 10**15), {}),
        (Either((at("partition", "=", 1), at("datacenter", "=", "JFK"))), {}),
        (
            Either(
                (
                    Every((at("partition", "=", 1), at("datacenter", "=", "JFK"))),
                    Every((at("partition", "=", 3), at("offset", ">", 1))),
                )
            ),
            {"partitions": "1,3"},
        ),
        (Either((at("partition", "=", 1), Unknown())), {}),
        (Every((at("partition", "=", 1), Unknown())), {"partitions": "1"}),
        (OneOf("partition", tuple(range(LISTED_MAX + 1))), {}),
    ],
)
def test_the_options_of_a_filter(predicate: Predicate, options: dict[str, str]) -> None:
    assert region_of(predicate).options() == options


def test_a_load_without_a_known_use_is_read_whole() -> None:
    assert hull_of([]) == Region()
    assert hull_of([region_of(at("partition", "=", 0)), Region()]).options() == {}


def test_a_region_that_begins_earlier() -> None:
    region = region_of(Every((at("timestamp", ">=", 61_000_000), at("partition", "=", 1))))
    assert region.from_earlier(60_000_000).options() == {
        "partitions": "1",
        "timestamp_first": "1970-01-01T00:00:01+00:00",
    }
    unbounded = region_of(at("partition", "=", 1))
    assert unbounded.from_earlier(1) == unbounded
