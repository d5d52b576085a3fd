"""DataFrames of decoded records and of rejects, batch and stream.

    decoded   the columns of the table `records`, with the fields of key and value as columns
    rejects   the records that do not decode: origin, place on the aggregate, reason, bytes

Guarantees: each record is in one of them. A null key or value is decoded, as null. No record fails
a query; a registry that does not answer does, because its records may be fine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

# PySpark's type stubs lack it.
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from spark_global.source.tables import COMMENT, DESCRIPTIONS
from spark_global.values.batches import (
    REASON,
    REJECT_COLUMNS,
    WHY_REJECTED,
    decode_batch,
    part_decoders,
)
from spark_global.values.declaring import PinnedTopic
from spark_global.values.pinning import SAMPLES_MAX, Samples
from spark_global.values.record_decoder import part_shape

_DECODED: Final = "_decoded"

ArrowBatches = Iterator[tuple[pa.Array, ...]]


def decoded_records(records: DataFrame, topic: PinnedTopic) -> DataFrame:
    """Return the records that decode, with key and value as columns of their schemas."""
    frame = _with_decoded(records, topic).where(f"{_DECODED}.{REASON} IS NULL")
    for name in topic.parts:
        described = sql.col(f"{_DECODED}.{name}").alias(
            name, metadata={COMMENT: f"{DESCRIPTIONS[name]}, decoded"}
        )
        frame = frame.withColumn(name, described)
    return frame.drop(_DECODED)


def rejected_records(records: DataFrame, topic: PinnedTopic) -> DataFrame:
    """Return the records that do not decode, with the reason."""
    reason = sql.col(f"{_DECODED}.{REASON}").alias(REASON, metadata={COMMENT: WHY_REJECTED})
    frame = _with_decoded(records, topic).where(f"{_DECODED}.{REASON} IS NOT NULL")
    return frame.withColumn(REASON, reason).select(*REJECT_COLUMNS)


def samples_of(records: DataFrame) -> Samples:
    """Return what reads sample keys or values of a batch of records."""

    def sample(name: str) -> list[bytes]:
        rows = records.where(f"`{name}` IS NOT NULL").select(name).limit(SAMPLES_MAX).collect()
        return [bytes(row[0]) for row in rows]

    return sample


def _with_decoded(records: DataFrame, topic: PinnedTopic) -> DataFrame:
    fields = [
        StructField(name, from_arrow_type(part_shape(part).type))
        for name, part in topic.parts.items()
    ]
    kind = StructType([*fields, StructField(REASON, StringType())])
    decode = arrow_udf(_batch_decoder(topic), kind)
    # The optimizer would copy a deterministic function into the filter, and decode twice.
    decode = decode.asNondeterministic()
    return records.withColumn(_DECODED, decode(*(sql.col(each) for each in _inputs(topic))))


def _inputs(topic: PinnedTopic) -> tuple[str, ...]:
    return ("datacenter", *topic.parts)


def _batch_decoder(topic: PinnedTopic) -> Callable[[ArrowBatches], Iterator[pa.Array]]:
    """Return the function that Spark's workers run: batches of inputs to decoded structs."""

    def decode_batches(batches: ArrowBatches) -> Iterator[pa.Array]:
        decoders = part_decoders(topic)
        for datacenters, *parts in batches:
            inputs = dict(zip(topic.parts, parts, strict=True))
            yield decode_batch(decoders, datacenters, inputs)

    return decode_batches
