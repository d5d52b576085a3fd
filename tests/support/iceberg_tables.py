"""Iceberg tables for tests: rows without a broker, and what a table has."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from local_cluster.client.model import TopicPartition
from spark_global.iceberg.file_writing import FileTarget, HourFiles
from spark_global.iceberg.staging import Batch
from spark_global.kept.said import SourceRange
from spark_global.source.tables import RECORDS
from spark_global.streaming.positions import StreamPositions

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TOPIC = "jfk.flights"


def at(offset: int) -> StreamPositions:
    """The positions of a table of one partition."""
    place = TopicPartition(TOPIC, 0)
    return StreamPositions(cluster_id="c", topic_ids={TOPIC: "t"}, offsets={place: offset})


def rows_of(offsets: range, datacenter: str | None = "JFK") -> pa.RecordBatch:
    """One record per offset and minute."""
    return pa.RecordBatch.from_pylist(
        [
            {
                "datacenter": datacenter,
                "topic": "flights",
                "partition": 0,
                "offset": offset,
                "aggregate_topic": TOPIC,
                "aggregate_offset": offset,
                "timestamp": EPOCH + timedelta(minutes=offset),
                "key": None,
                "value": f"v{offset}".encode(),
                "headers": [{"key": "h", "value": b"1"}],
                "topic_id": "id",
            }
            for offset in offsets
        ],
        schema=RECORDS,
    )


def batch_of(table: Table, start: StreamPositions, offsets: range, **more: Any) -> Batch:
    """A batch whose files are written already."""
    files = HourFiles(FileTarget.of(table, 1))
    if offsets:
        files.add("JFK", rows_of(offsets))
    found = SourceRange("JFK", "flights", 0, offsets.start, offsets.stop, len(offsets))
    return Batch(
        start=start,
        end=at(offsets.stop),
        paths=files.close(),
        ranges=[found] if offsets else [],
        complete=more.get("complete", {}),
    )


def offsets_in(table: Table) -> list[int]:
    """The source offsets that pyiceberg reads, in order."""
    return sorted(table.scan(selected_fields=("offset",)).to_arrow()["offset"].to_pylist())


def row_counts(table: Table) -> Counter[tuple[str, int, bytes | None]]:
    """How often each (datacenter, source offset, value) is there."""
    names = ("datacenter", "offset", "value")
    columns = table.scan(selected_fields=names).to_arrow().select(names).to_pydict()
    return Counter(zip(*(columns[name] for name in names), strict=True))
