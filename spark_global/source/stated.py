"""Rows that say how complete a batch of a stream is, beside its records.

A stateful operator sees rows only, not the checkpoint. So with option `completeness_rows` each
batch has one more row per datacenter, whose partition is STATED_PARTITION. They are made of the
positions at the end of the batch, so a batch that runs again has the same ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from spark_global.source.options import ReadOptions
from spark_global.source.tables import RECORDS

STATED_PARTITION: Final = -1
"""No partition of a topic. Key and value of such a row are JSON as in the checkpoint, so that a
stream may do without one of them."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class StatedRows(InputPartition):
    """The rows of a batch that say how complete it is."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        super().__init__(None)
        self.rows = rows


def stated_rows(complete: Mapping[str, Any], options: ReadOptions) -> pa.RecordBatch:
    """Return one row per datacenter of what the end of a batch says of completeness."""
    rows: list[dict[str, Any]] = [
        {
            "datacenter": name,
            "topic": options.topic,
            "partition": STATED_PARTITION,
            "offset": None,
            "aggregate_topic": options.topic,
            "aggregate_offset": STATED_PARTITION,
            "timestamp": _EPOCH,
            "key": said,
            "value": said,
            "headers": [],
            "topic_id": None,
        }
        for name, each in sorted(complete.items())
        for said in [json.dumps(each).encode()]
    ]
    whole = pa.RecordBatch.from_pylist(rows, schema=RECORDS)
    return whole.select(list(options.record_columns))
