"""Rows of the tables: provenance, nulls, and equal schemas of Spark and Arrow."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.fingerprint import fingerprint
from local_cluster.records.header import HEADER_BYTES, read_header
from mirror_maker.formats.completeness.replayed_topic import PartitionCompleteness
from mirror_maker.formats.completeness.statement import NO_HOLD, Hold, HoldKind
from mirror_maker.formats.gaps import Gap
from mirror_maker.formats.probe import probe_topic_name
from mirror_maker.formats.records import FlowKey
from mirror_maker.formats.verdict_topic import VerdictTopic
from mirror_maker.formats.verdicts import (
    BUCKET_MS,
    AuditPlace,
    Finding,
    Progress,
    Tally,
    Verdict,
    bucket_record,
    finding_record,
    progress_record,
)
from spark_global.addresses import ClusterAddress
from spark_global.links import MirrorLink
from spark_global.source.asked.asked_rows import config_rows, group_rows, lag_rows
from spark_global.source.asked.configs import TopicSettings
from spark_global.source.asked.groups import GroupPosition
from spark_global.source.columns import RecordColumns
from spark_global.source.coverage import PartitionEnds
from spark_global.source.decoding import decode_columns, decode_places
from spark_global.source.provenance import MapRuns
from spark_global.source.rows import (
    audit_rows,
    completeness_rows,
    fingerprint_rows,
    journal_rows,
    progress_rows,
    record_rows,
)
from spark_global.source.splits import Origin, PartitionRange
from spark_global.source.tables import (
    DESCRIPTIONS,
    PLACE_COLUMNS,
    SOURCE_SIDE,
    TABLES,
    spark_schema,
)
from spark_global.source.verdicts import (
    JournalEntry,
    audited_partitions,
    select,
    select_entries,
)
from spark_global.streaming.progress import Progress as StreamProgress

RECORDS = [NewRecord(1_000 + i, b"k", b"v%d" % i, (("n", None),) * i) for i in range(3)]
RUNS = MapRuns.of([(500, 10, 2)], source_next=502, target_next=12)


def columns() -> RecordColumns:
    batch = bytes(encode_batch(RECORDS, base_offset=10))
    return decode_columns([(read_header(batch), batch[HEADER_BYTES:])])


def wanted(**fields: object) -> PartitionRange:
    return PartitionRange(
        **{
            "cluster": ClusterAddress("h:1"),
            "origin": Origin("JFK", "flights"),
            "aggregate_topic": "jfk.flights",
            "partition": 2,
            "start": 0,
            "end": 100,
            "runs": RUNS,
            **fields,
        }  # type: ignore[arg-type]
    )


def test_records_carry_their_origin() -> None:
    rows = record_rows(columns(), wanted(topic_id="i")).to_pylist()
    assert rows[1] == {
        "datacenter": "JFK",
        "topic": "flights",
        "partition": 2,
        "offset": 501,
        "aggregate_topic": "jfk.flights",
        "aggregate_offset": 11,
        "timestamp": datetime(1970, 1, 1, 0, 0, 1, 1_000, tzinfo=UTC),
        "key": b"k",
        "value": b"v1",
        "headers": [{"key": "n", "value": None}],
        "topic_id": "i",
    }
    assert [row["topic_id"] for row in rows] == ["i", "i", None]


@pytest.mark.parametrize("name", TABLES["records"].names)
def test_each_column_alone_is_as_among_all(name: str) -> None:
    whole = record_rows(columns(), wanted())
    assert record_rows(columns(), wanted(), (name,)) == whole.select([name])
    if name in PLACE_COLUMNS:
        batch = bytes(encode_batch(RECORDS, base_offset=10))
        places = decode_places([(read_header(batch), b"")])
        assert record_rows(places, wanted(), (name,)) == whole.select([name])


def test_times_that_spark_does_not_have_are_the_nearest_bound() -> None:
    """As of producers that give microseconds or nanoseconds for milliseconds."""
    times = (1_700_000_000_000_000, 1_700_000_000_000_000_000, -(2**63), -1, 2**63 - 1)
    found = []
    for time_ms in times:
        batch = bytes(encode_batch([NewRecord(time_ms, None, b"v")], base_offset=10))
        decoded = decode_columns([(read_header(batch), batch[HEADER_BYTES:])])
        found += record_rows(decoded, wanted(), ["timestamp"])["timestamp"].to_pylist()
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)
    before_1970 = datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)
    assert found == [last, last, first, before_1970, last]


def test_an_offset_that_the_map_does_not_tell_is_null() -> None:
    assert [row["offset"] for row in record_rows(columns(), wanted()).to_pylist()] == [
        500,
        501,
        None,
    ]


def test_records_born_where_they_are_read_keep_their_offset() -> None:
    here = wanted(origin=Origin(None, "local"), aggregate_topic="local", runs=None)
    rows = record_rows(columns(), here).to_pylist()
    assert [(row["datacenter"], row["offset"], row["aggregate_offset"]) for row in rows] == [
        (None, offset, offset) for offset in (10, 11, 12)
    ]


def test_fingerprints_of_the_aggregate() -> None:
    rows = fingerprint_rows(columns(), wanted(other_log_start=501)).to_pylist()
    assert [row["fingerprint"] for row in rows] == [
        fingerprint(r.timestamp_ms, r.key, r.value, r.headers) for r in RECORDS
    ]
    assert [(r["offset"], r["aggregate_offset"], r["past_map"], r["expired"]) for r in rows] == [
        (500, 10, False, True),
        (501, 11, False, False),
        (None, 12, True, False),
    ]


def test_fingerprints_of_the_source() -> None:
    runs = MapRuns.of([(10, 77, 2)], source_next=12, target_next=79)
    rows = fingerprint_rows(columns(), wanted(side=SOURCE_SIDE, runs=runs)).to_pylist()
    assert [(r["side"], r["offset"], r["aggregate_offset"], r["past_map"]) for r in rows] == [
        ("source", 10, 77, False),
        ("source", 11, 78, False),
        ("source", 12, None, True),
    ]


@pytest.mark.parametrize("table", list(TABLES))
def test_spark_is_told_the_schema_that_arrow_delivers(table: str) -> None:
    # Spark compares the types of what it gets with what it was told, and fails where they differ.
    told = to_arrow_schema(spark_schema(table), timezone="UTC")
    delivered = TABLES[table]
    assert [(f.name, f.type) for f in told] == [(f.name, f.type) for f in delivered]


def test_batches_have_the_declared_schema() -> None:
    assert record_rows(columns(), wanted()).schema == TABLES["records"]
    assert fingerprint_rows(columns(), wanted()).schema == TABLES["fingerprints"]
    assert pa.types.is_timestamp(record_rows(columns(), wanted()).schema.field("timestamp").type)


def stated_partition(hold: Hold, partition: int = 2) -> PartitionCompleteness:
    return PartitionCompleteness(
        topic="flights",
        partition=partition,
        topic_id=UUID(int=1),
        generation=0,
        position=10,
        epoch=0,
        sampled_ms=None,
        end=None,
        complete_through_ms=1_000,
        proved_through_ms=None,
        gaps=2,
        hold=hold,
        worker_id="w",
        written_ms=2_000,
        listed_ms=2_000,
    )


def test_completeness_is_a_row_per_link_and_partition() -> None:
    holds = [
        NO_HOLD,
        Hold(HoldKind.OPEN_TRANSACTION, 7, 1_500),
        Hold(HoldKind.OPEN_TRANSACTION),
        Hold(HoldKind.STOPPED, state="failed"),
    ]
    found = {("flights", index): stated_partition(hold, index) for index, hold in enumerate(holds)}
    links = [
        MirrorLink(source="jfk", datacenter="JFK", name="jfk-nyc"),
        MirrorLink(source="lga", datacenter="LGA", name="lga-nyc"),
    ]
    rows = completeness_rows(links, {"jfk-nyc": found}).to_pylist()
    assert [row["held_by"] for row in rows] == [
        None,
        "an open transaction of producer id 7",
        "an open transaction",
        "its mirror has stopped it: failed",
    ]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    since = [row["held_since"] and (row["held_since"] - epoch).total_seconds() for row in rows]
    assert since == [None, 1.5, 1.0, 1.0]
    first = rows[0]
    assert (first["link"], first["datacenter"], first["gaps"]) == ("jfk-nyc", "JFK", 2)
    assert first["complete_through"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert (first["proved_through"], first["source_end"], first["sampled_at"]) == (None,) * 3


def verdicts_of(flow: FlowKey, *, target: str = "jfk.flights", written_ms: int = 9) -> VerdictTopic:
    """Return a verdicts topic with one closed bucket, one growing bucket and a finding."""
    lost = Tally(2, 1, 5, 7, None, None)
    finding = Finding(
        verdict=Verdict.LOST,
        target_from=5,
        target_to=7,
        source_from=5,
        source_to=7,
        records_count=2,
        start_ms=BUCKET_MS,
        detail="the log has other offsets",
        noticed_at_ms=8,
    )
    progress = Progress(
        target_topic=target,
        worker_id="w",
        audited_from=0,
        place=AuditPlace(audited_to=10),
        audited_at_ms=7_000,
        waiting=3,
        receipts_topic_id="",
        receipts_offset=0,
        source_end=None,
        target_log_start=None,
        written_at_ms=written_ms,
        buckets={BUCKET_MS: {Verdict.COMPLETE: Tally(8, 2, 0, 9, 0, 9), Verdict.LOST: lost}},
    )
    topic = VerdictTopic()
    for key, value in (
        bucket_record(flow, 0, {Verdict.COMPLETE: Tally(1, 1, 0, 1, 0, 1)}),
        finding_record(flow, finding),
        progress_record(flow, progress),
    ):
        topic.replay(key, value)
    return topic


FLOW = FlowKey("flights", 2, UUID(int=1), UUID(int=2))


def test_the_audit_is_a_row_per_bucket_and_verdict_beside_completeness() -> None:
    audited = audited_partitions("jfk-nyc", verdicts_of(FLOW), {"jfk.flights": UUID(int=2)})
    assert select(audited, "weather", frozenset()) == []
    assert select(audited, None, frozenset({1})) == []
    assert select(audited, "flights", frozenset({2})) == audited
    links = [MirrorLink(source="jfk", datacenter="JFK", name="jfk-nyc")]
    stated = {"jfk-nyc": {("flights", 2): stated_partition(NO_HOLD)}}
    rows = audit_rows(links, audited, stated).to_pylist()
    named = ("bucket_start", "verdict", "is_fault", "records_count", "source_from", "target_to")
    first = datetime(1970, 1, 1, 0, 10, tzinfo=UTC)
    assert [tuple(row[name] for name in named) for row in rows] == [
        (None, "COMPLETE", False, 1, 0, 1),
        (first, "COMPLETE", False, 8, 0, 9),
        (first, "LOST", True, 2, 5, None),
    ]
    assert [row["detail"] for row in rows] == [None, None, "the log has other offsets"]
    for row in rows:
        assert (row["link"], row["datacenter"], row["topic"]) == ("jfk-nyc", "JFK", "flights")
        assert (row["partition"], row["aggregate_topic"]) == (2, "jfk.flights")
        assert row["batches_waiting"] == 3
        assert row["audited_at"] == datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC)
        assert row["complete_through"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def test_verdicts_of_a_topic_that_is_gone_are_no_rows() -> None:
    """The source was re-created, then the copy."""
    topic = verdicts_of(FLOW)
    again = FLOW._replace(source_topic_id=UUID(int=3))
    for flow, verdicts in list(verdicts_of(again, written_ms=10).flows()):
        assert verdicts.progress is not None
        topic.replay(*progress_record(flow, verdicts.progress))
    ids = {"jfk.flights": FLOW.target_topic_id}
    assert [each.flow for each in audited_partitions("l", topic, ids)] == [again]
    assert audited_partitions("l", topic, {"jfk.flights": UUID(int=4)}) == []
    assert audited_partitions("l", topic, {}) == []


def test_lag_is_a_row_per_group_and_partition() -> None:
    positions = [
        GroupPosition(
            side=SOURCE_SIDE,
            group="readers",
            origin=Origin("JFK", "flights"),
            aggregate_topic="jfk.flights",
            partition=partition,
            committed_offset=committed,
            ends=PartitionEnds(3, 10),
        )
        for partition, committed in enumerate((4, 10, 12))
    ]
    rows = lag_rows(positions).to_pylist()
    assert [row["lag"] for row in rows] == [6, 0, 0]  # the last one is past a truncated log
    for row in rows:
        del row["lag"]
    assert rows == group_rows(positions).to_pylist()


def test_configs_are_a_row_per_topic_side_and_config() -> None:
    settings = TopicSettings(
        side=SOURCE_SIDE,
        origin=Origin("JFK", "flights"),
        aggregate_topic="jfk.flights",
        configs={"retention.ms": ("7", False), "cleanup.policy": ("delete", True)},
    )
    rows = config_rows([settings]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("source", "JFK", "flights", "jfk.flights", "cleanup.policy", "delete", True),
        ("source", "JFK", "flights", "jfk.flights", "retention.ms", "7", False),
    ]


def journal_entry(flow: FlowKey) -> Gap:
    """Return an entry about five lost source offsets."""
    return Gap(
        flow=flow,
        producer_epoch=0,
        nonce=1,
        link="jfk-nyc",
        target_topic="jfk.flights",
        source_from=100,
        source_to=105,
        records_count=None,
        reason="out_of_range",
        detail="retention was faster",
        target_offset=90,
        noticed_at_ms=7_000,
        worker_id="w",
    )


def test_the_journal_is_a_row_per_entry() -> None:
    probe = replace(
        journal_entry(FLOW), flow=FLOW._replace(source_topic=probe_topic_name("jfk-nyc"))
    )
    entries = [JournalEntry("jfk-nyc", gap, True) for gap in (journal_entry(FLOW), probe)]
    assert select_entries(entries, None, frozenset()) == entries[:1]
    assert select_entries(entries, "flights", frozenset({2})) == entries[:1]
    assert select_entries(entries, "weather", frozenset()) == []
    assert select_entries(entries, None, frozenset({1})) == []
    links = [MirrorLink(name="jfk-nyc", source="jfk", datacenter="JFK")]
    assert journal_rows(links, entries[:1]).to_pylist() == [
        {
            "link": "jfk-nyc",
            "datacenter": "JFK",
            "topic": "flights",
            "partition": 2,
            "aggregate_topic": "jfk.flights",
            "kind": "lost",
            "reason": "out_of_range",
            "detail": "retention was faster",
            "source_from": 100,
            "source_to": 105,
            "records_count": None,
            "target_from": 90,
            "target_to": None,
            "copied_count": None,
            "is_current": True,
            "noticed_at": datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC),
            "worker": "w",
        }
    ]


def test_progress_is_a_row_per_group_and_datacenter() -> None:
    jfk = StreamProgress(at_ms=2_000, query="q", batch=7, datacenter="JFK", records=5, seconds=1.5)
    unknown = StreamProgress(at_ms=1_000)
    first, second = progress_rows({"g": [jfk], "h": [unknown]}).to_pylist()
    assert first == {
        "group": "g",
        "datacenter": "JFK",
        "query": "q",
        "batch": 7,
        "records_behind": 5,
        "seconds_behind": 1.5,
        "is_at_least": False,
        "published_at": datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
    }
    assert (second["group"], second["records_behind"]) == ("h", None)


def test_every_column_of_every_table_is_described() -> None:
    for table, schema in TABLES.items():
        fields = spark_schema(table).fields
        assert [each.name for each in fields] == schema.names
        assert all(each.metadata["comment"] for each in fields)
    assert {name for schema in TABLES.values() for name in schema.names} == set(DESCRIPTIONS)
