"""The trace of a record: its own, the same for whoever asks, or its producer's."""

from __future__ import annotations

import uuid

import pytest

from topology.tracing.trace_ids import (
    RecordIdentity,
    TraceIds,
    TraceParent,
    parse_traceparent,
    trace_ids,
)

RECORD = RecordIdentity("cluster", uuid.UUID(int=7), "orders", 3, 4711)
VALID = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PARENT = TraceParent(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, True)


def test_ids_are_a_function_of_the_record_and_of_nothing_else() -> None:
    ids = trace_ids(RECORD, ())
    assert ids == trace_ids(RecordIdentity(*RECORD), (("other", b"header"),))
    assert ids.parent is None
    others = [
        RECORD._replace(cluster_id="other"),
        RECORD._replace(topic_id=uuid.UUID(int=8)),
        RECORD._replace(topic="order", partition=3),
        RECORD._replace(partition=4),
        RECORD._replace(offset=4712),
    ]
    assert len({trace_ids(each, ()).trace_id for each in [RECORD, *others]}) == 6
    # Names do not run into each other.
    assert RECORD.digest("a", "bc", size_bytes=8) != RECORD.digest("ab", "c", size_bytes=8)


def test_spans_of_steps_and_of_records_of_one_trace_differ() -> None:
    other = RECORD._replace(offset=4712)
    spans = {
        ids.span_id(*what)
        for ids in (trace_ids(RECORD, ()), trace_ids(other, ()))
        for what in (("record",), ("copied", "jfk-nyc"), ("copied", "jfk-ams"), ("complete",))
    }
    assert len(spans) == 8
    assert all(0 < each < 1 << 64 for each in spans)
    joined = [trace_ids(each, (("traceparent", VALID),)) for each in (RECORD, other)]
    assert {each.trace_id for each in joined} == {PARENT.trace_id}
    assert len({each.span_id("record") for each in joined}) == 2


def test_a_record_with_a_traceparent_belongs_to_its_producers_trace() -> None:
    assert trace_ids(RECORD, (("traceparent", VALID),)) == TraceIds(RECORD, PARENT[0], PARENT)
    last = (("traceparent", b"rubbish"), ("traceparent", VALID))
    assert parse_traceparent(last) == PARENT, "instrumented consumers take the last header too"
    assert parse_traceparent(last[::-1]) is None
    unsampled = parse_traceparent((("traceparent", VALID[:-1] + b"0"),))
    assert unsampled == PARENT._replace(is_sampled=False)
    later = parse_traceparent((("traceparent", b"cc" + VALID[2:] + b"-what-later-versions-add"),))
    assert later == PARENT


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        VALID.upper(),
        VALID[:-1],
        VALID + b"-more",
        b"ff" + VALID[2:],
        VALID.replace(b"4bf92f3577b34da6a3ce929d0e0e4736", b"0" * 32),
        VALID.replace(b"00f067aa0ba902b7", b"0" * 16),
        VALID.replace(b"-", b"_"),
    ],
)
def test_an_invalid_traceparent_is_none(value: bytes | None) -> None:
    assert parse_traceparent((("traceparent", value),)) is None
    own = trace_ids(RECORD, ())
    assert trace_ids(RECORD, (("traceparent", value),)) == own
