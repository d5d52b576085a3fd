"""Decodes batches of records in a task, without a DataFrame.

Guarantees: each record is in one of the two views of its topic. A null key or value is decoded, as
null. No record fails a task; a registry that does not answer does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_global.source.tables import DESCRIPTIONS, RECORDS
from spark_global.values.declaring import KEY, VALUE, PinnedTopic
from spark_global.values.record_decoder import PartDecoder, part_decoder, part_shape

REASON: Final = "reason"
REJECT_COLUMNS: Final = (
    "datacenter",
    "topic",
    "partition",
    "offset",
    "aggregate_topic",
    "aggregate_offset",
    "timestamp",
    REASON,
    KEY,
    VALUE,
    "topic_id",
)
WHY_REJECTED: Final = "why the record does not decode"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedView:
    """A view of the records that decode or, with `is_rejects`, of those that do not."""

    topic: PinnedTopic
    is_rejects: bool

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows."""
        if self.is_rejects:
            kinds = {**dict(zip(RECORDS.names, RECORDS.types, strict=True)), REASON: pa.string()}
            return pa.schema([pa.field(name, kinds[name]) for name in REJECT_COLUMNS])
        decoded = {name: part_shape(part).type for name, part in self.topic.parts.items()}
        return pa.schema(
            [pa.field(each.name, decoded.get(each.name, each.type)) for each in RECORDS]
        )

    @property
    def descriptions(self) -> Mapping[str, str]:
        """What each column is."""
        if self.is_rejects:
            return {**DESCRIPTIONS, REASON: WHY_REJECTED}
        decoded = {name: f"{DESCRIPTIONS[name]}, decoded" for name in self.topic.parts}
        return {**DESCRIPTIONS, **decoded}

    def decoder(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """Return what turns rows of the table `records` into rows of the view, for one task."""
        decoders = part_decoders(self.topic)
        schema = self.schema

        def decode(rows: pa.RecordBatch) -> pa.RecordBatch:
            inputs = {name: rows.column(name) for name in decoders}
            found = decode_batch(decoders, rows.column("datacenter"), inputs)
            columns = dict(zip(rows.schema.names, rows.columns, strict=True))
            reasons = found.field(REASON)
            if self.is_rejects:
                columns[REASON], wanted = reasons, pc.is_valid(reasons)
            else:
                columns.update({name: found.field(name) for name in decoders})
                wanted = pc.is_null(reasons)
            arrays = [columns[name] for name in schema.names]
            return pa.RecordBatch.from_arrays(arrays, schema=schema).filter(wanted)

        return decode


def part_decoders(topic: PinnedTopic) -> dict[str, PartDecoder]:
    """Return the decoders of a topic's parts, for one task. Raises UnusableSchema."""
    return {name: part_decoder(part, topic.registries) for name, part in topic.parts.items()}


def decode_batch(
    decoders: Mapping[str, PartDecoder], datacenters: pa.Array, inputs: Mapping[str, pa.Array]
) -> pa.Array:
    """Return one struct per record: its decoded parts, and the reason if one does not decode."""
    origins = datacenters.to_pylist()
    reasons: list[str | None] = [None] * len(origins)
    columns: list[Any] = []
    for name, decoder in decoders.items():
        column, wrong = decoder.decode(origins, inputs[name].to_pylist())
        columns.append(column)
        for index, why in wrong.items():
            found = reasons[index]
            reasons[index] = f"{name}: {why}" if found is None else f"{found}; {name}: {why}"
    columns.append(pa.array(reasons, type=pa.string()))
    return pa.StructArray.from_arrays(columns, names=[*decoders, REASON])
