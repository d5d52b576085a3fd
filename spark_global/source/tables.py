"""The tables of the data source: one Arrow schema each, from which Spark's is derived.

    records       one row per record: origin, place on the aggregate, content
    fingerprints  one row per record on both sides of every link, without content; see `audit.py`
    offset_map    the runs that relate source offsets and aggregate offsets
    end_offsets   one row per partition: log start, end, and end of the map
    source_end_offsets  the same of the partitions at their sources
    completeness  until when the copies of a link are complete, one row per source partition
    audit         what the audits of the mirrors have found, per partition and ten minutes
    journal       what the links did not copy, and why
    progress      how far streams with a group are behind, per datacenter
    groups        committed offsets of consumer groups, on the aggregate and at the sources
    lag           the same, and how many records each group has not read
    topic_configs the configs of topics, on the aggregate and at the sources

`datacenter`, `topic`, `partition` and `offset` are those of the source. `aggregate_topic` and
`aggregate_offset` are those of the cluster to read. An offset that the map does not have is null,
never a guess.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

COMMENT: Final = "comment"
"""Spark's key for the description of a column."""
SOURCE_SIDE: Final = "source"
AGGREGATE_SIDE: Final = "aggregate"

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
TIME_MS_MIN: Final = -62_135_596_800_000
TIME_MS_MAX: Final = 253_402_300_799_999
"""Spark's timestamps are of the years 1 to 9999; times outside of them are the nearest bound."""
HEADER: Final = pa.struct(
    [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]
)

_ORIGIN: Final = (
    pa.field("datacenter", pa.string()),
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
)

RECORDS: Final = pa.schema(
    [
        *_ORIGIN,
        pa.field("offset", pa.int64()),
        pa.field("aggregate_topic", pa.string(), nullable=False),
        pa.field("aggregate_offset", pa.int64(), nullable=False),
        pa.field("timestamp", TIMESTAMP, nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(HEADER), nullable=False),
        pa.field("topic_id", pa.string()),
    ]
)

FINGERPRINTS: Final = pa.schema(
    [
        pa.field("side", pa.string(), nullable=False),
        *_ORIGIN,
        pa.field("offset", pa.int64()),
        pa.field("aggregate_offset", pa.int64()),
        pa.field("past_map", pa.bool_(), nullable=False),
        pa.field("expired", pa.bool_(), nullable=False),
        pa.field("fingerprint", pa.int64(), nullable=False),
    ]
)

OFFSET_MAP: Final = pa.schema(
    [
        pa.field("link", pa.string(), nullable=False),
        *_ORIGIN,
        pa.field("aggregate_topic", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("aggregate_offset", pa.int64(), nullable=False),
        pa.field("records", pa.int64(), nullable=False),
    ]
)

END_OFFSETS: Final = pa.schema(
    [
        *_ORIGIN,
        pa.field("aggregate_topic", pa.string(), nullable=False),
        pa.field("log_start_offset", pa.int64(), nullable=False),
        pa.field("last_stable_offset", pa.int64(), nullable=False),
        pa.field("mapped_source_offset", pa.int64()),
    ]
)

GROUPS: Final = pa.schema(
    [
        pa.field("side", pa.string(), nullable=False),
        *_ORIGIN,
        pa.field("aggregate_topic", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("committed_offset", pa.int64(), nullable=False),
        pa.field("log_start_offset", pa.int64(), nullable=False),
        pa.field("last_stable_offset", pa.int64(), nullable=False),
    ]
)

LAG: Final = pa.schema([*GROUPS, pa.field("lag", pa.int64(), nullable=False)])

TOPIC_CONFIGS: Final = pa.schema(
    [
        pa.field("side", pa.string(), nullable=False),
        pa.field("datacenter", pa.string()),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("aggregate_topic", pa.string(), nullable=False),
        pa.field("config", pa.string(), nullable=False),
        pa.field("config_value", pa.string()),
        pa.field("is_default", pa.bool_(), nullable=False),
    ]
)

COMPLETENESS: Final = pa.schema(
    [
        pa.field("link", pa.string(), nullable=False),
        *_ORIGIN,
        pa.field("complete_through", TIMESTAMP),
        pa.field("proved_through", TIMESTAMP),
        pa.field("gaps", pa.int64(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("source_end", pa.int64()),
        pa.field("sampled_at", TIMESTAMP),
        pa.field("held_by", pa.string()),
        pa.field("held_since", TIMESTAMP),
        pa.field("worker", pa.string(), nullable=False),
        pa.field("stated_at", TIMESTAMP, nullable=False),
    ]
)

AUDIT: Final = pa.schema(
    [
        pa.field("link", pa.string(), nullable=False),
        *_ORIGIN,
        pa.field("aggregate_topic", pa.string(), nullable=False),
        pa.field("bucket_start", TIMESTAMP),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("is_fault", pa.bool_(), nullable=False),
        pa.field("records_count", pa.int64(), nullable=False),
        pa.field("source_from", pa.int64()),
        pa.field("source_to", pa.int64()),
        pa.field("target_from", pa.int64()),
        pa.field("target_to", pa.int64()),
        pa.field("detail", pa.string()),
        pa.field("audited_at", TIMESTAMP, nullable=False),
        pa.field("batches_waiting", pa.int64(), nullable=False),
        pa.field("complete_through", TIMESTAMP),
    ]
)

JOURNAL: Final = pa.schema(
    [
        pa.field("link", pa.string(), nullable=False),
        *_ORIGIN,
        pa.field("aggregate_topic", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("source_from", pa.int64(), nullable=False),
        pa.field("source_to", pa.int64()),
        pa.field("records_count", pa.int64()),
        pa.field("target_from", pa.int64(), nullable=False),
        pa.field("target_to", pa.int64()),
        pa.field("copied_count", pa.int64()),
        pa.field("is_current", pa.bool_(), nullable=False),
        pa.field("noticed_at", TIMESTAMP, nullable=False),
        pa.field("worker", pa.string(), nullable=False),
    ]
)

PROGRESS: Final = pa.schema(
    [
        pa.field("group", pa.string(), nullable=False),
        pa.field("datacenter", pa.string()),
        pa.field("query", pa.string()),
        pa.field("batch", pa.int64()),
        pa.field("records_behind", pa.int64()),
        pa.field("seconds_behind", pa.float64()),
        pa.field("is_at_least", pa.bool_(), nullable=False),
        pa.field("published_at", TIMESTAMP, nullable=False),
    ]
)

DESCRIPTIONS: Final[Mapping[str, str]] = {
    "link": "link that copies the partition",
    "side": "source or aggregate",
    "datacenter": "where the records were produced",
    "topic": "topic at the source",
    "partition": "partition, the same at the source and on the aggregate",
    "offset": "offset at the source; null if no offset map has it",
    "aggregate_topic": "topic on the aggregate",
    "aggregate_offset": "offset on the aggregate",
    "timestamp": "timestamp of the record; what is outside of the years 1 to 9999 is their bound",
    "key": "key as produced",
    "value": "value as produced; null is a tombstone",
    "headers": "headers as produced, in order",
    "topic_id": "id of the topic at the source; another topic of that name has another one. Null "
    "where offset is null, and if the topic is no copy",
    "past_map": "whether the offset map ends before the record",
    "expired": "whether retention has deleted the counterpart on the other side",
    "fingerprint": "hash of timestamp, key, value and headers",
    "records": "records of the run, with consecutive offsets on both sides",
    "log_start_offset": "first offset that the log has",
    "last_stable_offset": "end of what read_committed returns",
    "mapped_source_offset": "first source offset that the offset map does not have",
    "group": "consumer group",
    "committed_offset": "next offset that the group reads",
    "lag": "records that the group has not read: last_stable_offset - committed_offset, or 0",
    "config": "name of a config of the topic",
    "config_value": "its value; null if the broker does not show it",
    "is_default": "whether the topic has no value of its own, and has that of its broker",
    "complete_through": "every record that the source committed before is copied or left out",
    "proved_through": "the same, and no later leader epoch can withdraw it",
    "gaps": "entries of the journal: records that were left out",
    "position": "next source offset to copy",
    "source_end": "end of the source at sampled_at",
    "sampled_at": "when the end of the source was asked for, by the worker's clock",
    "held_by": "what holds the time back, if the worker knows it",
    "held_since": "since when, by the worker's clock: an open transaction since it was first seen, "
    "others since complete_through; null if nothing holds the time back",
    "worker": "mirror worker that states the row",
    "stated_at": "when it was stated, by the worker's clock",
    "bucket_start": "start of ten minutes of record time; null holds all that is older or has no "
    "time",
    "verdict": "what the audit says of the records, such as COMPLETE or LOST",
    "is_fault": "whether the verdict is LOST, DUPLICATED, ALTERED or FOREIGN",
    "records_count": "number of records of the row; null if unknown",
    "source_from": "first source offset of the row; null if the source has none",
    "source_to": "end of its source offsets, exclusive; null if unknown, or open",
    "target_from": "first offset on the aggregate; null if the aggregate has none. In the journal: "
    "copies of later records lie from here on",
    "target_to": "end of its offsets on the aggregate, exclusive",
    "detail": "a fault in words",
    "kind": "lost: not copied; copied: copied, but the offsets are not known; foreign: on the "
    "aggregate, but not by the link",
    "reason": "trouble or order that the entry comes from",
    "copied_count": "number of records of kind copied",
    "is_current": "whether the copy is still the topic that the entry is about",
    "noticed_at": "when it was noticed, by the worker's clock",
    "audited_at": "all that was acknowledged before is compared, but for batches_waiting",
    "batches_waiting": "acknowledged batches that are not compared yet",
    "query": "id of the streaming query; null until its first batch after a start",
    "batch": "id of the last batch that is done",
    "records_behind": "records of the datacenter that the query has not read; null if unknown",
    "seconds_behind": "how far the query is behind the datacenter, by the driver's clock",
    "is_at_least": "whether seconds_behind is only a lower bound",
    "published_at": "when the query published it, by the driver's clock",
}
"""What each column is, in every table that has it. `DESCRIBE` shows it."""

RECORDS_TABLE: Final = "records"
FINGERPRINTS_TABLE: Final = "fingerprints"
OFFSET_MAP_TABLE: Final = "offset_map"
END_OFFSETS_TABLE: Final = "end_offsets"
SOURCE_END_OFFSETS_TABLE: Final = "source_end_offsets"
GROUPS_TABLE: Final = "groups"
LAG_TABLE: Final = "lag"
TOPIC_CONFIGS_TABLE: Final = "topic_configs"
COMPLETENESS_TABLE: Final = "completeness"
AUDIT_TABLE: Final = "audit"
JOURNAL_TABLE: Final = "journal"
PROGRESS_TABLE: Final = "progress"

TABLES: Final[Mapping[str, pa.Schema]] = {
    RECORDS_TABLE: RECORDS,
    FINGERPRINTS_TABLE: FINGERPRINTS,
    OFFSET_MAP_TABLE: OFFSET_MAP,
    END_OFFSETS_TABLE: END_OFFSETS,
    SOURCE_END_OFFSETS_TABLE: END_OFFSETS,
    GROUPS_TABLE: GROUPS,
    LAG_TABLE: LAG,
    TOPIC_CONFIGS_TABLE: TOPIC_CONFIGS,
    COMPLETENESS_TABLE: COMPLETENESS,
    AUDIT_TABLE: AUDIT,
    JOURNAL_TABLE: JOURNAL,
    PROGRESS_TABLE: PROGRESS,
}


PLACE_COLUMNS: Final = frozenset(
    {
        *("datacenter", "topic", "partition", "offset"),
        *("aggregate_topic", "aggregate_offset", "topic_id"),
    }
)
"""Columns of `records` that say where a record is, and nothing of what it holds."""


def spark_schema(table: str, columns: Collection[str] = ()) -> StructType:
    """Return Spark's schema of a table or some of its columns, with a comment for each."""
    plain = from_arrow_schema(TABLES[table])
    return StructType(
        [
            StructField(each.name, each.dataType, each.nullable, {COMMENT: DESCRIPTIONS[each.name]})
            for each in plain.fields
            if not columns or each.name in columns
        ]
    )
