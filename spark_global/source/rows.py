"""Decoded records as the rows of a table: Arrow record batches with provenance. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from local_cluster.client.model import TopicPartition
from mirror_maker.formats.completeness.replayed_topic import PartitionCompleteness
from mirror_maker.formats.completeness.statement import Hold, HoldKind
from mirror_maker.formats.verdict_topic import FlowVerdicts
from mirror_maker.formats.verdicts import FAULTS, Verdict
from spark_global.cut.statements import Statements
from spark_global.links import MirrorLink
from spark_global.source.columns import (
    Int64s,
    RecordColumns,
    binary_column,
    fingerprint_columns,
    headers_column,
)
from spark_global.source.coverage import ReadPlan, ReadTopic
from spark_global.source.provenance import UNKNOWN_OFFSET
from spark_global.source.splits import PartitionRange
from spark_global.source.tables import (
    AGGREGATE_SIDE,
    AUDIT,
    COMPLETENESS,
    END_OFFSETS,
    FINGERPRINTS,
    HEADER,
    JOURNAL,
    OFFSET_MAP,
    PROGRESS,
    RECORDS,
    TIME_MS_MAX,
    TIME_MS_MIN,
    TIMESTAMP,
)
from spark_global.source.verdicts import AuditedPartition, JournalEntry
from spark_global.streaming.progress import Progress

_US_PER_MS: Final = 1000


def record_rows(
    columns: RecordColumns, wanted: PartitionRange, names: Sequence[str] = tuple(RECORDS.names)
) -> pa.RecordBatch:
    """Return rows of the table `records`, of these columns only."""
    return pa.RecordBatch.from_arrays(
        [_RECORD_COLUMNS[name](columns, wanted) for name in names],
        schema=pa.schema([RECORDS.field(name) for name in names]),
    )


def _source_offsets(columns: RecordColumns, wanted: PartitionRange) -> pa.Array:
    if wanted.runs is None:
        return pa.array(columns.offsets)
    return _nullable(wanted.runs.sources_of(columns.offsets))


def _topic_ids(columns: RecordColumns, wanted: PartitionRange) -> pa.Array:
    if wanted.runs is None or wanted.topic_id is None:
        return pa.nulls(len(columns), pa.string())
    ids = pa.repeat(pa.scalar(wanted.topic_id), len(columns))
    is_known = wanted.runs.sources_of(columns.offsets) != UNKNOWN_OFFSET
    return ids if is_known.all() else pc.if_else(pa.array(is_known), ids, None)


def _times(columns: RecordColumns) -> pa.Array:
    within = np.clip(columns.timestamps_ms, TIME_MS_MIN, TIME_MS_MAX)
    return pa.array(within * _US_PER_MS).view(TIMESTAMP)


_RECORD_COLUMNS: Final[Mapping[str, Callable[[RecordColumns, PartitionRange], pa.Array]]] = {
    "datacenter": lambda columns, wanted: _datacenter(wanted, len(columns)),
    "topic": lambda columns, wanted: pa.repeat(pa.scalar(wanted.origin.topic), len(columns)),
    "partition": lambda columns, wanted: _partition(wanted, len(columns)),
    "offset": _source_offsets,
    "aggregate_topic": lambda columns, wanted: pa.repeat(
        pa.scalar(wanted.aggregate_topic), len(columns)
    ),
    "aggregate_offset": lambda columns, _: pa.array(columns.offsets),
    "timestamp": lambda columns, _: _times(columns),
    "key": lambda columns, _: binary_column(columns.payload, columns.keys, pa.binary()),
    "value": lambda columns, _: binary_column(columns.payload, columns.values, pa.binary()),
    "headers": lambda columns, _: headers_column(columns, HEADER),
    "topic_id": _topic_ids,
}


def fingerprint_rows(columns: RecordColumns, wanted: PartitionRange) -> pa.RecordBatch:
    """Return rows of the table `fingerprints`."""
    count = len(columns)
    own = columns.offsets
    unknown = np.full(count, UNKNOWN_OFFSET, dtype=np.int64)
    if wanted.runs is None:
        other = unknown
    elif wanted.side == AGGREGATE_SIDE:
        other = wanted.runs.sources_of(own)
    else:
        other = wanted.runs.targets_of(own)
    past_map = own >= wanted.map_end
    expired = (other >= 0) & (other < wanted.other_log_start)
    on_aggregate = wanted.side == AGGREGATE_SIDE
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(wanted.side), count),
            *_origin_columns(wanted, count),
            _nullable(other if on_aggregate else own),
            _nullable(own if on_aggregate else other),
            pa.array(past_map),
            pa.array(expired),
            pa.array(fingerprint_columns(columns)),
        ],
        schema=FINGERPRINTS,
    )


def _origin_columns(wanted: PartitionRange, count: int) -> list[pa.Array]:
    return [
        _datacenter(wanted, count),
        pa.repeat(pa.scalar(wanted.origin.topic), count),
        _partition(wanted, count),
    ]


def _datacenter(wanted: PartitionRange, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(wanted.origin.datacenter, type=pa.string()), count)


def _partition(wanted: PartitionRange, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(wanted.partition, type=pa.int32()), count)


def _nullable(offsets: Int64s) -> pa.Array:
    return pa.array(offsets, mask=offsets == UNKNOWN_OFFSET)


def offset_map_rows(plan: ReadPlan) -> pa.RecordBatch:
    """Return the table `offset_map`: one row per run."""
    rows = [
        {
            "link": mapped.link,
            **_origin_fields(plan, at, mapped.link),
            "offset": source,
            "aggregate_offset": target,
            "records": count,
        }
        for at, maps in sorted(plan.maps.items())
        for mapped in maps
        for source, target, count in zip(
            mapped.runs.sources.tolist(),
            mapped.runs.targets.tolist(),
            mapped.runs.counts.tolist(),
            strict=True,
        )
    ]
    return pa.RecordBatch.from_pylist(rows, schema=OFFSET_MAP)


def end_offset_rows(plan: ReadPlan) -> pa.RecordBatch:
    """Return the table `end_offsets`: one row per partition and merged link."""
    rows = [
        {
            **_origin_fields(plan, at, topic.link.name if topic.link is not None else None),
            "log_start_offset": end.log_start_offset,
            "last_stable_offset": end.last_stable_offset,
            "mapped_source_offset": _mapped_end(plan, at, topic),
        }
        for at, end in sorted(plan.ends.items())
        for topic in plan.topics[at.topic]
    ]
    return pa.RecordBatch.from_pylist(rows, schema=END_OFFSETS)


def source_end_offset_rows(plan: ReadPlan) -> pa.RecordBatch:
    """Return the table `source_end_offsets`: one row per source partition."""
    rows = [
        {
            "datacenter": source.topic.origin.datacenter,
            "topic": source.topic.origin.topic,
            "partition": at.partition,
            "aggregate_topic": at.topic,
            "log_start_offset": source.ends.log_start_offset,
            "last_stable_offset": source.ends.last_stable_offset,
            "mapped_source_offset": _mapped_end(plan, at, source.topic),
        }
        for at, sources in sorted(plan.sources.items())
        for source in sources
    ]
    return pa.RecordBatch.from_pylist(rows, schema=END_OFFSETS)


def _mapped_end(plan: ReadPlan, at: TopicPartition, topic: ReadTopic) -> int | None:
    maps = plan.maps.get(at, [])
    if len(plan.topics.get(at.topic, ())) > 1 and topic.link is not None:
        maps = [mapped for mapped in maps if mapped.link == topic.link.name]
    return maps[0].runs.source_next if maps else None


def _origin_fields(plan: ReadPlan, at: TopicPartition, link: str | None) -> dict[str, object]:
    topics = plan.topics[at.topic]
    named = [topic for topic in topics if topic.link is not None and topic.link.name == link]
    origin = (named or topics)[0].origin
    return {
        "datacenter": origin.datacenter,
        "topic": origin.topic,
        "partition": at.partition,
        "aggregate_topic": at.topic,
    }


def completeness_rows(links: Iterable[MirrorLink], statements: Statements) -> pa.RecordBatch:
    """Return the table `completeness`: one row per link and source partition."""
    rows = [
        {
            "link": link.name,
            "datacenter": link.datacenter,
            "topic": topic,
            "partition": partition,
            "complete_through": _time(found.complete_through_ms),
            "proved_through": _time(found.proved_through_ms),
            "gaps": found.gaps,
            "position": found.position,
            "source_end": found.end,
            "sampled_at": _time(found.sampled_ms),
            "held_by": _held_by(found.hold),
            "held_since": _time(_held_since_ms(found)),
            "worker": found.worker_id,
            "stated_at": _time(found.written_ms),
        }
        for link in links
        for (topic, partition), found in sorted(statements.get(link.name or "", {}).items())
    ]
    return pa.RecordBatch.from_pylist(rows, schema=COMPLETENESS)


def audit_rows(
    links: Iterable[MirrorLink], audited: Iterable[AuditedPartition], statements: Statements
) -> pa.RecordBatch:
    """Return the table `audit`: one row per source partition, bucket and verdict."""
    datacenters = {link.name: link.datacenter for link in links}
    rows = []
    for each in audited:
        at = each.flow.source_topic, each.flow.partition
        stated = statements.get(each.link, {}).get(at)
        of_partition = {
            "link": each.link,
            "datacenter": datacenters.get(each.link),
            "topic": each.flow.source_topic,
            "partition": each.flow.partition,
            "aggregate_topic": each.progress.target_topic,
            "audited_at": _time(each.progress.audited_at_ms),
            "batches_waiting": each.progress.waiting,
            "complete_through": None if stated is None else _time(stated.complete_through_ms),
        }
        rows += [
            {
                **of_partition,
                "bucket_start": _time(start_ms or None),
                "verdict": verdict.value,
                "is_fault": verdict in FAULTS,
                "records_count": tally.records_count,
                "source_from": tally.source_from,
                "source_to": tally.source_to,
                "target_from": tally.target_from,
                "target_to": tally.target_to,
                "detail": _detail(each.verdicts, verdict, start_ms),
            }
            for start_ms, bucket in each.verdicts.buckets().items()
            for verdict, tally in bucket.items()
        ]
    return pa.RecordBatch.from_pylist(rows, schema=AUDIT)


def journal_rows(links: Iterable[MirrorLink], entries: Iterable[JournalEntry]) -> pa.RecordBatch:
    """Return the table `journal`: one row per entry."""
    datacenters = {link.name: link.datacenter for link in links}
    rows = [
        {
            "link": each.link,
            "datacenter": datacenters.get(each.link),
            "topic": each.gap.flow.source_topic,
            "partition": each.gap.flow.partition,
            "aggregate_topic": each.gap.target_topic,
            "kind": each.gap.kind.value,
            "reason": each.gap.reason,
            "detail": each.gap.detail,
            "source_from": each.gap.source_from,
            "source_to": each.gap.source_to,
            "records_count": each.gap.records_count,
            "target_from": each.gap.target_offset,
            "target_to": each.gap.target_to,
            "copied_count": each.gap.copied_count,
            "is_current": each.is_current,
            "noticed_at": _time(each.gap.noticed_at_ms),
            "worker": each.gap.worker_id,
        }
        for each in entries
    ]
    return pa.RecordBatch.from_pylist(rows, schema=JOURNAL)


def _detail(verdicts: FlowVerdicts, verdict: Verdict, start_ms: int) -> str | None:
    found = (
        each.detail
        for each in verdicts.findings.values()
        if each.verdict is verdict and (each.start_ms or 0) == start_ms
    )
    return next(found, None)


def progress_rows(published: Mapping[str, list[Progress]]) -> pa.RecordBatch:
    """Return the table `progress`: one row per group and datacenter."""
    rows = [
        {
            "group": group,
            "datacenter": each.datacenter,
            "query": each.query,
            "batch": each.batch,
            "records_behind": each.records,
            "seconds_behind": each.seconds,
            "is_at_least": each.at_least,
            "published_at": _time(each.at_ms),
        }
        for group, entries in published.items()
        for each in entries
    ]
    return pa.RecordBatch.from_pylist(rows, schema=PROGRESS)


def _time(time_ms: int | None) -> int | None:
    return None if time_ms is None else time_ms * _US_PER_MS


def _held_by(hold: Hold) -> str | None:
    match hold.kind:
        case HoldKind.OPEN_TRANSACTION:
            return "an open transaction" + (
                f" of producer id {hold.producer_id}" if hold.producer_id >= 0 else ""
            )
        case HoldKind.STOPPED:
            return f"its mirror has stopped it: {hold.state}"
    return None


def _held_since_ms(found: PartitionCompleteness) -> int | None:
    if found.hold.kind is HoldKind.NONE:
        return None
    return found.complete_through_ms if found.hold.since_ms is None else found.hold.since_ms
