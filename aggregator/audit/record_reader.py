"""Reads both logs of one partition and feeds them to `record_audit`. Shell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from aggregator.audit.log_audit import LogRange, read_log_batches
from aggregator.audit.record_audit import RecordAudit
from aggregator.ports import ClusterReader
from local_cluster.records.batch import Record, decode_batch

Batch = tuple[list[Record], int]
"""The committed records of a batch, and its producer id."""


async def audit_records(
    audit: RecordAudit,
    source: ClusterReader,
    source_log: LogRange | None,
    target: ClusterReader,
    target_log: LogRange | None,
) -> None:
    """Read both ranges to their ends; a range is None if that side has no such partition.

    Raises KafkaError if a side does not respond, CorruptRecordError or CompressionError if a batch
    is not readable.
    """
    originals = _batches(source, source_log, lambda _: None)
    copies = _batches(target, target_log, audit.trim_target)
    while audit.wants_source or audit.wants_target:
        if audit.wants_source:
            batch = await anext(originals, None)
            if batch is None:
                audit.end_source()
            else:
                audit.add_source(batch[0])
        if audit.wants_target:
            batch = await anext(copies, None)
            if batch is None:
                audit.end_target()
            else:
                audit.add_target(*batch)
        audit.judge()


async def _batches(
    client: ClusterReader, log: LogRange | None, on_trimmed: Callable[[int], None]
) -> AsyncIterator[Batch]:
    if log is None:
        return
    async for fetched, place, header in read_log_batches(client, log, on_trimmed):
        records = [
            record
            for record in decode_batch(fetched, place, header)
            if log.start <= record.offset < log.end
        ]
        if records:
            yield records, header.producer_id
