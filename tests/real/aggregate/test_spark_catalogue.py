"""Each question of the catalogue finds the answer that was planted, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from aggregator.completeness.parts import CompletenessState
from mirror_maker.formats.mm2 import Heartbeat, encode_heartbeat
from spark_global.catalogue.completeness import COMPLETE_THROUGH, LINK_LATENCY
from spark_global.catalogue.offsets import (
    AUDIT_BUCKETS,
    CONFIG_DRIFT,
    GROUP_LAG,
    HEARTBEAT_MATRIX,
    LOSS_NOW,
    OFFSET_QUESTIONS,
    PARTITION_DRIFT,
    REPLAY_IF_LOST,
    TRANSLATED_GROUPS,
)
from spark_global.catalogue.records import (
    CONFLICTS,
    CROSS_DATACENTER_PAIRS,
    DUPLICATES,
    FIRST_COPIES,
    GAPS,
    LATE_DATACENTERS,
    LATEST_PER_KEY,
    MOVED_KEYS,
    RECORD_QUESTIONS,
    SCHEMA_DRIFT,
    TOP_KEYS,
    WINDOWS,
)
from spark_global.catalogue.windows import (
    DATACENTER_WINDOWS,
    FAST_WINDOWS,
    STRICT_WINDOWS,
    WINDOW_QUESTIONS,
)
from spark_global.source.tables import TABLES, spark_schema

pytestmark = pytest.mark.real

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def record(
    datacenter: str,
    offset: int | None,
    seconds: float,
    key: str | None,
    value: str | None,
    *,
    copy: int | None = None,
    topic_id: str | None = None,
) -> tuple[Any, ...]:
    return (
        datacenter,
        "orders",
        0,
        offset,
        f"{datacenter}.orders",
        offset if copy is None else copy,
        at(seconds),
        None if key is None else key.encode(),
        None if value is None else value.encode(),
        [],
        topic_id,
    )


RECORDS = (
    record("eu", 10, 0, "a", '{"id": 1}'),
    record("us", 70, 20, "a", '{"id": 1, "tax": 2}'),  # a conflict; us wrote last
    record("eu", 11, 40, "b", '{"id": 2}'),
    record("eu", 13, 61, "b", '{"id": 3}'),  # eu 12 is missing
    record("us", 71, 400, "c", '{"id": 4}'),
    record("us", 71, 400, "c", '{"id": 4}', copy=72),  # a second copy of us 71
    record("us", 72, 420, "b", None, copy=73),  # a deletion in another datacenter
    record("us", None, 430, None, '{"id": 5}', copy=74),  # no key, no known origin
)


@pytest.fixture(scope="module")
def records(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(list(RECORDS), spark_schema("records")).cache()


def table(spark: SparkSession, name: str, *rows: Mapping[str, Any]) -> DataFrame:
    fields = TABLES[name].names
    return spark.createDataFrame(
        [tuple(row.get(field) for field in fields) for row in rows], spark_schema(name)
    )


def found(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    def plain(value: Any) -> Any:
        if isinstance(value, bytes | bytearray):
            return bytes(value).decode()
        if isinstance(value, datetime):
            return (value.replace(tzinfo=UTC) - START).total_seconds()
        return value.total_seconds() if isinstance(value, timedelta) else value

    rows: list[Row] = frame.select(*columns).collect()
    return sorted((tuple(plain(value) for value in row) for row in rows), key=str)


def test_joins_duplicates_and_conflicts(records: DataFrame) -> None:
    pairs = found(CROSS_DATACENTER_PAIRS(records), "key", "first_datacenter", "second_datacenter")
    assert pairs == [("a", "eu", "us")]
    assert found(CROSS_DATACENTER_PAIRS(records, seconds=19), "key") == []
    assert found(DUPLICATES(records), "datacenter", "offset", "copies", "aggregate_offsets") == [
        ("us", 71, 2, [71, 72])
    ]
    kept = found(FIRST_COPIES(records), "datacenter", "offset", "aggregate_offset")
    assert len(kept) == len(RECORDS) - 1
    assert ("us", 71, 72) not in kept
    conflict = ("a", 0.0, ["eu", "us"], "us", '{"id": 1, "tax": 2}', 20_000)
    columns = ("key", "window_start", "datacenters", "winner", "winning_value", "spread_ms")
    assert found(CONFLICTS(records), *columns) == [conflict]
    assert found(LATEST_PER_KEY(records), "key", "datacenter", "value") == [
        ("a", "us", '{"id": 1, "tax": 2}'),
        ("b", "us", None),
        ("c", "us", '{"id": 4}'),
    ]


def test_offsets_of_a_topic_and_of_one_before_are_not_the_same(spark: SparkSession) -> None:
    rows = [
        record("eu", offset, 0, None, None, copy=copy, topic_id=topic_id)
        for copy, (topic_id, offset) in enumerate([("old", 0), ("old", 7), ("new", 0), ("new", 1)])
    ]
    frame = spark.createDataFrame(rows, spark_schema("records"))
    assert found(DUPLICATES(frame), "offset") == []
    kept = found(FIRST_COPIES(frame), "aggregate_offset")
    assert kept == [(0,), (1,), (2,), (3,)]
    gaps = found(GAPS(frame, table(spark, "journal")), "after_offset", "before_offset", "missing")
    assert gaps == [(0, 7, 6)]


def test_windows_and_late_datacenters(records: DataFrame) -> None:
    assert found(WINDOWS(records), "window_start", "datacenter", "records", "value_bytes") == [
        (0.0, "eu", 3, 27),
        (0.0, "us", 1, 19),
        (300.0, "us", 4, 27),
    ]
    top = found(TOP_KEYS(records, limit=1), "window_start", "key", "records", "datacenters")
    assert top == [(0.0, "b", 3, 2)]
    assert found(LATE_DATACENTERS(records), "datacenter", "records", "behind") == [
        ("eu", 3, 369.0),
        ("us", 5, 0.0),
    ]
    assert found(SCHEMA_DRIFT(records), "datacenter", "fields", "records") == [
        ("eu", ["id"], 3),
        ("us", ["id", "tax"], 1),
        ("us", ["id"], 3),
    ]


def journalled(
    source_from: int, source_to: int | None, kind: str = "lost", reason: str = "too_large"
) -> dict[str, Any]:
    """Return a row of `journal`."""
    return {
        "link": "eu",
        "datacenter": "eu",
        "topic": "orders",
        "partition": 0,
        "aggregate_topic": "eu.orders",
        "kind": kind,
        "reason": reason,
        "detail": "",
        "source_from": source_from,
        "source_to": source_to,
        "target_from": 0,
        "is_current": True,
        "noticed_at": at(0),
        "worker": "w",
    }


def test_gaps_and_what_the_journal_says_of_them(spark: SparkSession, records: DataFrame) -> None:
    columns = ("after_offset", "before_offset", "missing", "journalled", "unexplained", "reasons")
    silent = table(spark, "journal")
    assert found(GAPS(records, silent), "datacenter", *columns) == [
        ("eu", 11, 13, 1, 0, 1, []),
        ("us", 71, 71, -1, 0, 0, []),
    ]
    gaps = spark.createDataFrame(
        [record("eu", offset, 0, None, None) for offset in (10, 20, 30, 40, 50, 60)],
        records.schema,
    )
    journal = table(
        spark,
        "journal",
        journalled(5, 16),  # both overlap, and begin before the gap
        journalled(13, 18, reason="out_of_range"),
        journalled(14, 15, kind="foreign"),  # is not about source offsets
        journalled(21, 30, kind="copied", reason="source_lost"),
        journalled(38, 52),  # reaches over a record
        journalled(55, None, reason="source_deleted"),  # no end, so it says nothing in between
        journalled(51, 60) | {"is_current": False},
        journalled(51, 60) | {"partition": 1},
        journalled(51, 60) | {"datacenter": "us"},
        journalled(20, 21),  # no missing offset
    )
    assert found(GAPS(gaps, journal), *columns) == [
        (10, 20, 9, 7, 2, ["out_of_range", "too_large"]),
        (20, 30, 9, 9, 0, ["source_lost"]),
        (30, 40, 9, 2, 7, ["too_large"]),
        (40, 50, 9, 9, 0, ["too_large"]),
        (50, 60, 9, 1, 8, ["too_large"]),
    ]


def stated(datacenter: str, partition: int, through: float | None, gaps: int = 0) -> dict[str, Any]:
    """Return a row of `completeness`."""
    return {
        "link": datacenter,
        "datacenter": datacenter,
        "topic": "orders",
        "partition": partition,
        "complete_through": None if through is None else at(through),
        "gaps": gaps,
        "position": 0,
        "held_by": "an open transaction" if datacenter == "us" else None,
        "held_since": at(5) if datacenter == "us" else None,
        "worker": "w",
        "stated_at": at(0),
    }


def mapped(datacenter: str, partition: int) -> dict[str, Any]:
    """Return a row of `end_offsets`."""
    return {
        "datacenter": datacenter,
        "topic": "orders",
        "partition": partition,
        "aggregate_topic": f"{datacenter}.orders",
        "log_start_offset": 0,
        "last_stable_offset": 10,
        "mapped_source_offset": 10,
    }


EU, US = stated("eu", 0, 700), stated("us", 0, 600)
US_WITH_GAPS = stated("us", 1, 650, gaps=2)
"""Entries of the journal of one partition."""
SITUATIONS: Mapping[str, tuple[dict[str, Any], ...]] = {
    "all": (EU, US),
    "all-and-us-has-gaps": (EU, US, US_WITH_GAPS),
    "us-has-gaps-and-is-before-300": (EU, stated("us", 0, 299.9), US_WITH_GAPS),
    "eu-is-at-300": (EU, stated("eu", 1, 300), US),
    "us-is-before-300": (EU, stated("us", 0, 299.9)),
    "a-partition-is-unknown": (EU, stated("eu", 1, None), US),
    "a-mapped-partition-is-silent": (stated("eu", 1, 700), US),
    "a-datacenter-is-silent": (EU, US),
    "all-are-silent": (),
}
"""What is stated, by topic. Each topic has the same records."""
SILENT = mapped("ap", 0) | {"topic": "a-datacenter-is-silent"}
"""A datacenter that has copies, no records and no statement."""


def test_windows_that_wait_and_windows_that_go_on(spark: SparkSession) -> None:
    """Both windows, until 300 and 600 s, have four records."""
    ends = [mapped(name, 0) | {"topic": topic} for topic in SITUATIONS for name in ("eu", "us")]
    frames = (
        table(
            spark,
            "completeness",
            *(row | {"topic": topic} for topic, rows in SITUATIONS.items() for row in rows),
        ),
        table(spark, "end_offsets", *ends, SILENT),
        spark.createDataFrame(
            [(row[0], topic, *row[2:]) for topic in SITUATIONS for row in RECORDS],
            spark_schema("records"),
        ),
    )
    missing: dict[str, list[list[str]]] = {
        "all": [[], []],
        "all-and-us-has-gaps": [[], []],
        "us-has-gaps-and-is-before-300": [["us"], ["us"]],
        "eu-is-at-300": [[], ["eu"]],
        "us-is-before-300": [["us"], ["us"]],
        "a-partition-is-unknown": [["eu"], ["eu"]],
        "a-mapped-partition-is-silent": [["eu"], ["eu"]],
        "a-datacenter-is-silent": [["ap"], ["ap"]],
        "all-are-silent": [["eu", "us"], ["eu", "us"]],
    }
    named = ("topic", "window_start", "records", "missing", "with_gaps", "is_complete")
    expected = [
        (topic, start, 4, names, ["us"] if "us-has-gaps" in topic else [], not names)
        for topic, windows in missing.items()
        for start, names in zip((0.0, 300.0), windows, strict=True)
    ]
    assert found(FAST_WINDOWS(*frames), *named) == sorted(expected, key=str)
    columns = ("topic", "window_start", "records", "datacenters", "with_gaps")
    both, only_us = ["eu", "us"], ["us"]
    assert found(STRICT_WINDOWS(*frames), *columns) == [
        ("all", 0.0, 4, both, []),
        ("all", 300.0, 4, only_us, []),
        ("all-and-us-has-gaps", 0.0, 4, both, ["us"]),
        ("all-and-us-has-gaps", 300.0, 4, only_us, ["us"]),
        ("eu-is-at-300", 0.0, 4, both, []),
    ]
    # Producers may be late.
    late = STRICT_WINDOWS(*frames, lateness_seconds=1)
    assert found(late, *columns[:4]) == [
        ("all", 0.0, 4, both),
        ("all-and-us-has-gaps", 0.0, 4, both),
    ]


def test_windows_of_each_datacenter_by_itself(spark: SparkSession, records: DataFrame) -> None:
    unknown = spark.createDataFrame(
        [(None, *record("us", None, 350, "k", "v", copy=90)[1:])], records.schema
    )
    completeness = table(spark, "completeness", stated("eu", 0, 300, gaps=1), stated("us", 0, 900))
    ends = table(spark, "end_offsets", mapped("eu", 0), mapped("us", 0))
    columns = ("window_start", "datacenter", "records", "complete_through", "is_complete")
    gaps = found(DATACENTER_WINDOWS(completeness, ends, records), "datacenter", "with_gaps")
    assert gaps == [("eu", True), ("us", False), ("us", False)]
    assert found(DATACENTER_WINDOWS(completeness, ends, records), *columns) == [
        (0.0, "eu", 3, 300.0, True),
        (0.0, "us", 1, 900.0, True),
        (300.0, "us", 4, 900.0, True),
    ]
    with_unknown = DATACENTER_WINDOWS(completeness, ends, records.union(unknown))
    assert found(with_unknown, *columns)[2:] == [
        (300.0, "us", 4, 900.0, False),
        (300.0, None, 1, None, False),
    ]


COMPLETE, WITH_GAPS, UNKNOWN = (
    CompletenessState.COMPLETE.value,
    CompletenessState.WITH_GAPS.value,
    CompletenessState.UNKNOWN.value,
)


def test_completeness_by_datacenter_and_over_all(spark: SparkSession) -> None:
    def of_topic(topic: str, *rows: dict[str, Any]) -> list[dict[str, Any]]:
        return [row | {"topic": topic} for row in rows]

    completeness = table(
        spark,
        "completeness",
        *of_topic("whole", stated("eu", 0, 700), stated("us", 0, 600)),
        *of_topic("gaps", stated("eu", 0, 700, 3), stated("eu", 1, 650, 1), stated("us", 0, 900)),
        *of_topic("held", stated("eu", 0, 700, 1), stated("us", 0, None), stated("us", 1, 10)),
        *of_topic("silent", stated("eu", 0, 700)),
    )
    ends = table(
        spark,
        "end_offsets",
        *(mapped("eu", 0) | {"topic": topic} for topic in ("whole", "gaps", "held", "silent")),
        *of_topic("silent", mapped("us", 0)),
    )
    answer = COMPLETE_THROUGH(completeness, ends).cache()
    columns = ("topic", "datacenter", "complete_through", "state", "gaps")
    assert found(answer, *columns) == [
        ("gaps", "eu", 650.0, WITH_GAPS, 4),
        ("gaps", "us", 900.0, COMPLETE, 0),
        ("gaps", None, 650.0, WITH_GAPS, 4),
        ("held", "eu", 700.0, WITH_GAPS, 1),
        ("held", "us", None, UNKNOWN, 0),
        ("held", None, None, UNKNOWN, 1),
        ("silent", "eu", 700.0, COMPLETE, 0),
        ("silent", "us", None, UNKNOWN, 0),
        ("silent", None, None, UNKNOWN, 0),
        ("whole", "eu", 700.0, COMPLETE, 0),
        ("whole", "us", 600.0, COMPLETE, 0),
        ("whole", None, 600.0, COMPLETE, 0),
    ]
    holders = ("topic", "held_by_datacenter", "held_by_partition", "held_by", "held_since")
    assert found(answer.where("datacenter IS NULL"), *holders) == [
        ("gaps", "eu", 1, None, None),
        ("held", "us", 0, "an open transaction", 5.0),
        ("silent", "us", 0, "its mirror has stated nothing about it", None),
        ("whole", "us", 0, "an open transaction", 5.0),
    ]
    of_us = answer.where("datacenter = 'us'")
    behind = found(
        of_us.selectExpr("topic", "seconds_behind IS NULL AS unknown"), "topic", "unknown"
    )
    assert behind == [("gaps", False), ("held", True), ("silent", True), ("whole", False)]


def hours_ago(datacenter: str, partition: int, hours: float | None) -> dict[str, Any]:
    """Return a row of `completeness` with a time before now."""
    through = None if hours is None else datetime.now(UTC) - timedelta(hours=hours)
    return stated(datacenter, partition, None) | {"complete_through": through}


def test_a_late_link_is_told_from_an_idle_datacenter(spark: SparkSession) -> None:
    """No record plays a part: an idle datacenter states its completeness all the same."""
    completeness = table(
        spark,
        "completeness",
        *(hours_ago("idle", partition, 0.5) for partition in range(2)),
        *(hours_ago("late", 0, 0.5), hours_ago("late", 1, 0.5), hours_ago("late", 2, 3.5)),
        *(hours_ago("not-proved", 0, 0.5), hours_ago("not-proved", 1, None)),
        hours_ago("silent", 0, 0.5),
    )
    ends = table(spark, "end_offsets", mapped("idle", 0), mapped("silent", 0), mapped("silent", 1))
    hours = "CAST(floor({0}_seconds / 3600) AS INT) AS {0}"
    answer = LINK_LATENCY(completeness, ends, late_seconds=2 * 3600).selectExpr(
        "*", *(hours.format(name) for name in ("p50", "p99", "worst"))
    )
    columns = ("datacenter", "partitions", "unknown_partitions", "p50", "p99", "worst", "status")
    assert found(answer, *columns) == [
        ("idle", 2, 0, 0, 0, 0, "OK"),
        ("late", 3, 0, 0, 3, 3, "LATE"),
        ("not-proved", 2, 1, 0, 0, 0, "LATE"),
        ("silent", 2, 1, 0, 0, 0, "LATE"),
    ]
    by_default = LINK_LATENCY(completeness, ends).where("datacenter = 'idle'")
    assert found(by_default, "status") == [("LATE",)]


def test_the_audit_by_bucket(spark: SparkSession) -> None:
    def verdict(bucket: float | None, name: str, count: int, **fields: Any) -> dict[str, Any]:
        return {
            "link": "eu",
            "datacenter": "eu",
            "topic": "orders",
            "partition": 0,
            "aggregate_topic": "eu.orders",
            "bucket_start": None if bucket is None else at(bucket),
            "verdict": name,
            "is_fault": name == "LOST",
            "records_count": count,
            "audited_at": at(1_250),
            "batches_waiting": 0,
            "complete_through": at(1_300),
            **fields,
        }

    buckets = AUDIT_BUCKETS(
        table(
            spark,
            "audit",
            verdict(None, "COMPLETE", 9),
            verdict(0, "COMPLETE", 5),
            verdict(0, "COMPLETE", 4, partition=1),
            verdict(0, "EXPECTED GAP", 1),
            verdict(600, "COMPLETE", 3),
            verdict(600, "LOST", 2),
            verdict(1_200, "COMPLETE", 1),
            verdict(0, "COMPLETE", 1, datacenter="us", complete_through=None),
            verdict(600, "COMPLETE", 1, datacenter="us", audited_at=at(1_100)),
        )
    )
    columns = ("datacenter", "bucket_start", "status", "mirrored", "lost", "expected_gap")
    assert found(buckets, *columns) == [
        ("eu", 0.0, "COMPLETE", 9, 0, 1),
        ("eu", 1200.0, "OPEN", 1, 0, 0),
        ("eu", 600.0, "LOST", 3, 2, 0),
        ("eu", None, "COMPLETE", 9, 0, 0),
        ("us", 0.0, "OPEN", 1, 0, 0),
        ("us", 600.0, "OPEN", 1, 0, 0),
    ]


def test_keys_that_are_in_several_partitions(records: DataFrame) -> None:
    moved = records.selectExpr(
        "* EXCEPT (partition)", "if(datacenter = 'us' AND key = 'b', 1, partition) AS partition"
    ).select(*records.columns)
    assert found(MOVED_KEYS(records), "key") == []
    answer = found(MOVED_KEYS(moved), "key", "partitions", "records", "places")
    assert [row[:3] for row in answer] == [("b", 2, 3)]
    assert [tuple(place) for place in answer[0][3]] == [("eu", 0), ("us", 1)]


def test_groups_translation_and_replay(spark: SparkSession) -> None:
    eu = {
        "datacenter": "eu",
        "topic": "orders",
        "partition": 0,
        "aggregate_topic": "eu.orders",
        "log_start_offset": 0,
    }
    us = {**eu, "datacenter": "us", "aggregate_topic": "us.orders"}
    groups = table(
        spark,
        "groups",
        {**eu, "side": "source", "group": "g", "committed_offset": 95, "last_stable_offset": 100},
        {**us, "side": "source", "group": "g", "committed_offset": 50, "last_stable_offset": 60},
        {**us, "side": "source", "group": "h", "committed_offset": 15, "last_stable_offset": 60},
    )
    ends = table(
        spark,
        "source_end_offsets",
        {**eu, "last_stable_offset": 100, "mapped_source_offset": 90},
        {**us, "last_stable_offset": 60, "mapped_source_offset": 60},
    )
    maps = table(
        spark,
        "offset_map",
        {**eu, "link": "eu", "offset": 0, "aggregate_offset": 0, "records": 90},
        {**us, "link": "us", "offset": 0, "aggregate_offset": 0, "records": 10},
        {**us, "link": "us", "offset": 20, "aggregate_offset": 10, "records": 40},
    )
    assert found(GROUP_LAG(groups), "group", "lag", "worst_datacenter", "worst_partition_lag") == [
        ("g", 15, "us", 10),
        ("h", 45, "us", 45),
    ]
    translated = TRANSLATED_GROUPS(groups, maps, ends)
    assert found(translated, "group", "datacenter", "translated_offset") == [
        ("g", "eu", None),  # the copy has not come so far
        ("g", "us", 40),
        ("h", "us", 10),  # 15 was not copied: the next record that was is 20
    ]
    assert found(REPLAY_IF_LOST(groups, ends), "group", "datacenter", "skipped", "unread") == [
        ("g", "eu", 5, 5),
        ("g", "us", 0, 0),
        ("h", "us", 0, 0),
    ]
    here, there = ({**each, "last_stable_offset": 100} for each in (eu, us))
    drift = table(
        spark,
        "end_offsets",
        *(here, there, {**there, "partition": 1}),
        *({**each, "topic": "same"} for each in (here, there)),
    )
    assert found(PARTITION_DRIFT(drift), "topic", "partitions_by_datacenter") == [
        ("orders", {"eu": 1, "us": 2})
    ]


def test_loss_in_records_and_seconds(spark: SparkSession) -> None:
    def end(datacenter: str, partition: int, last: int, mapped: int | None) -> dict[str, Any]:
        return {
            "datacenter": datacenter,
            "topic": "orders",
            "partition": partition,
            "aggregate_topic": f"{datacenter}.orders",
            "log_start_offset": 0,
            "last_stable_offset": last,
            "mapped_source_offset": mapped,
        }

    ends = table(
        spark,
        "source_end_offsets",
        *(end("eu", 0, 100, 90), end("eu", 1, 50, 43), end("eu", 2, 9, 9)),
        *(end("us", 0, 60, 60), end("us", 1, 0, None)),  # nothing is missing
        end("ap", 0, 30, 20),  # nothing is stated
        end("af", 0, 30, 20),  # nothing is proved
        *(end("sa", 0, 30, 20), end("sa", 1, 30, None)),  # no map of one partition
    )
    completeness = table(
        spark,
        "completeness",
        *(hours_ago("eu", 0, 1), hours_ago("eu", 1, 3), hours_ago("eu", 2, 7)),
        *(hours_ago("us", 0, 5), hours_ago("us", 1, None)),
        hours_ago("af", 0, None),
        *(hours_ago("sa", 0, 1), hours_ago("sa", 1, 1)),
    )
    answer = LOSS_NOW(ends, completeness).selectExpr(
        "*", "CAST(floor(seconds / 3600) AS INT) AS hours"
    )
    columns = ("datacenter", "partitions", "records", "hours", "unknown_partitions")
    assert found(answer, *columns) == [
        ("af", 1, 10, None, 0),
        ("ap", 1, 10, None, 0),
        ("eu", 3, 17, 3, 0),
        ("sa", 2, 10, None, 1),
        ("us", 2, 0, 0, 0),
    ]
    assert found(answer.where("records = 0"), "seconds") == [(0.0,)]


def test_configs_that_differ_between_datacenters(spark: SparkSession) -> None:
    def config(
        datacenter: str, name: str, value: str | None, side: str = "source", topic: str = "orders"
    ) -> dict[str, Any]:
        return {
            "side": side,
            "datacenter": datacenter,
            "topic": topic,
            "aggregate_topic": f"{datacenter}.{topic}",
            "config": name,
            "config_value": value,
            "is_default": False,
        }

    configs = table(
        spark,
        "topic_configs",
        *(config("eu", "retention.ms", "7"), config("us", "retention.ms", "9")),
        config("eu", "retention.ms", "7", "aggregate"),
        *(config("eu", "cleanup.policy", "delete"), config("us", "cleanup.policy", "delete")),
        config("us", "cleanup.policy", "compact", "aggregate"),  # a copy may differ
        *(config("eu", "segment.ms", None), config("us", "segment.ms", "5")),
        config("eu", "retention.ms", "1", topic="alone"),
    )
    columns = ("topic", "config", "sources", "copies")
    assert found(CONFIG_DRIFT(configs), *columns) == [
        ("orders", "retention.ms", [("eu", "7"), ("us", "9")], [("eu.orders", "7")]),
        ("orders", "segment.ms", [("eu", None), ("us", "5")], []),
    ]


def test_heartbeats(spark: SparkSession) -> None:
    def beat(datacenter: str, source: str, target: str, seconds: float) -> tuple[Any, ...]:
        sent_ms = round(at(seconds).timestamp() * 1_000)
        key, value = encode_heartbeat(Heartbeat(source, target, sent_ms))
        return (*record(datacenter, 0, 0, None, None)[:7], key, value, [], None)

    beats = spark.createDataFrame(
        [beat("eu", "eu", "nyc", 1), beat("eu", "eu", "nyc", 7.5), beat("us", "us-west", "nyc", 3)],
        spark_schema("records"),
    )
    assert found(HEARTBEAT_MATRIX(beats), "source", "target", "datacenter", "newest") == [
        ("eu", "nyc", "eu", 7.5),
        ("us-west", "nyc", "us", 3.0),
    ]


def test_a_question_of_a_stream(spark: SparkSession, records: DataFrame, tmp_path: Path) -> None:
    rows = str(tmp_path / "rows")
    records.write.parquet(rows)
    stream = spark.readStream.schema(records.schema).parquet(rows)
    query = (
        WINDOWS(stream.withWatermark("timestamp", "1 minute"))
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "windows"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    # The window that is still open is not final.
    closed = found(spark.read.parquet(str(tmp_path / "windows")), "datacenter", "records")
    assert closed == [("eu", 3), ("us", 1)]


def test_every_question_says_what_it_takes(records: DataFrame) -> None:
    questions = RECORD_QUESTIONS + WINDOW_QUESTIONS + OFFSET_QUESTIONS
    assert len({question.name for question in questions}) == len(questions)
    for question in questions:
        assert set(question.inputs) <= set(TABLES)
        for name in question.inputs:
            assert "{" + name + "}" in question.statement
        for name in question.parameters:
            assert ":" + name in question.statement
    with pytest.raises(TypeError, match="conflicts has no parameter windows; there are: window"):
        CONFLICTS(records, windows="1 minute")
    with pytest.raises(TypeError, match="group_lag takes the frames groups"):
        GROUP_LAG(records, records)
