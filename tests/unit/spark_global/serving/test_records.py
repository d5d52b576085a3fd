"""Which rows are served as records, and which as documents."""

from __future__ import annotations

from spark_global.serving.records import are_records
from spark_global.source.tables import RECORDS


def test_a_query_from_before_the_topic_id_still_serves_records() -> None:
    before = [name for name in RECORDS.names if name != "topic_id"]
    assert are_records(RECORDS.names) and are_records(before)
    assert not are_records(before[1:])
