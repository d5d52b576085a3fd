"""Names of views, and values and errors for people."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import Row

from spark_global.printing import plain_value
from spark_global.sql import explain_error, hint_for
from spark_global.view_names import question_names, view_names


def test_a_view_per_topic() -> None:
    assert view_names(["flights", "Orders.v2"]) == {
        "global_orders_v2": "Orders.v2",
        "global_flights": "flights",
    }


def test_topics_that_would_share_a_view_get_numbers() -> None:
    assert view_names(["a.b", "a_b", "a-b"]) == {
        "global_a_b": "a-b",
        "global_a_b_2": "a.b",
        "global_a_b_3": "a_b",
    }


def test_a_view_per_question_unless_a_topic_has_its_name() -> None:
    names = question_names(view_names(["flights", "flights.gaps"]))
    question, topic = names["global_flights_conflicts"]
    assert (question.name, topic) == ("conflicts", "flights")
    assert "global_flights_gaps" not in names
    assert names["global_flights_gaps_gaps"][1] == "flights.gaps"
    assert names["heliograph_group_lag"][1] is None
    assert names["heliograph_heartbeat_matrix"][1] == "heartbeats"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (bytearray(b"UA"), "UA"),
        (b"\xff\x00", "ff00"),
        (None, None),
        (datetime(2013, 1, 1, 10, tzinfo=UTC), "2013-01-01T10:00:00+00:00"),
        ([Row(key="h", value=bytearray(b"1"))], [{"key": "h", "value": "1"}]),
        ({"a": b"1"}, {"a": "1"}),
        (3, 3),
    ],
)
def test_plain_values(value: object, plain: object) -> None:
    assert plain_value(value) == plain


def test_of_a_traceback_only_the_reason_is_left() -> None:
    error = RuntimeError(
        "[PYTHON_DATA_SOURCE_ERROR] Failed to plan: Traceback (most recent call last):\n"
        '  File "x.py", line 1, in f\n'
        "    raise\n"
        "local_cluster.wire.errors.KafkaError: UNKNOWN_TOPIC_OR_PARTITION: x at h:1\n"
        " SQLSTATE: 38000"
    )
    assert explain_error(error) == "KafkaError: UNKNOWN_TOPIC_OR_PARTITION: x at h:1"
    assert explain_error(RuntimeError("plain\nwords")) == "plain\nwords"


def test_a_failed_query_over_streams_gets_a_hint() -> None:
    assert "spark materialize NAME PATH --sql" in hint_for("SELECT 1 FROM Stream_global_flights")
    assert hint_for("SELECT streams FROM global_flights") == ""
