"""Verdicts: what the audit of a link found on the target, per partition and span of time.

Topic: `heliograph-verdicts.<link>.internal` on the target, one partition, compacted. Key and value
are JSON objects; both carry `"version": 1`. Keys have a `kind`, and all but the last the flow:
source_topic, partition, source_topic_id, target_topic_id.

    progress  value  target_topic, worker_id, audited_from, audited_to, receipt_epoch, receipt_to,
                     audited_source, producer_epoch, sequence, audited_at_ms, waiting,
                     receipts_topic_id, receipts_offset, source_end, target_log_start,
                     written_at_ms, buckets
    bucket    key    ... start_ms
              value  one of `buckets`
    finding   key    ... verdict, target_from
              value  target_to, source_from, source_to, records_count, start_ms, detail,
                     noticed_at_ms
    auditor   key    worker_id
              value  at_ms, cpu_share, failure

Meaning:

- *Progress*: of the copy, the target offsets [audited_from, audited_to) were compared with the
  receipts. Receipts of producer epoch `receipt_epoch` reach up to `receipt_to` on the target and
  `audited_source` at the source. `producer_epoch` and `sequence` are those of the next batch in the
  log. `waiting` receipts are not compared yet; all that were acknowledged before `audited_at_ms`
  are. `source_end` is the source's end then, `target_log_start` the target's start (null: unknown).
- *Bucket*: ten minutes of record time; each batch counts with its largest timestamp. `start_ms`,
  and per verdict [records, batches, source_from, source_to, target_from, target_to]; offsets are
  null if that side has none. A growing bucket lies in the progress record, and that one holds.
- *Finding*: a batch that is LOST, DUPLICATED, ALTERED or FOREIGN.
- *Auditor*: that the worker's audit runs, and what hinders it.

The worker that copies a flow writes its records. When `BUCKETS_KEPT_MAX` newer buckets exist, a
bucket is added to the one that starts at 0. That one holds everything older, and batches without a
time. Findings are deleted when `FINDINGS_KEPT_MAX` newer ones exist.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final, NamedTuple

from mirror_maker.formats.fields import MapFormatError
from mirror_maker.formats.records import FlowKey

VERDICTS_VERSION: Final = 1
BUCKET_MS: Final = 600_000


def verdicts_topic_name(link: str) -> str:
    """Return the link's verdicts topic; MirrorMaker 2's pattern for internal topics excludes it."""
    return f"heliograph-verdicts.{link}.internal"


class Verdict(StrEnum):
    """What the audit says of records."""

    COMPLETE = "COMPLETE"
    """The target has them, at their offsets, byte for byte as acknowledged."""
    LATE = "LATE"
    """The source has them, the target does not yet."""
    LOST = "LOST"
    """They were acknowledged, and the target's log does not have them."""
    DUPLICATED = "DUPLICATED"
    """The target has them once more."""
    ALTERED = "ALTERED"
    """The target has other bytes in their place."""
    FOREIGN = "FOREIGN"
    """The link did not write them, and nobody else may write into the copy."""
    EXPECTED_GAP = "EXPECTED GAP"
    """They were not copied, and the journal says why."""
    CLEANED = "CLEANED"
    """Retention or compaction of the target took them."""
    UNVERIFIED = "UNVERIFIED"
    """They were not compared: not yet, or because it is unknown what they should be."""


FAULTS: Final = frozenset({Verdict.LOST, Verdict.DUPLICATED, Verdict.ALTERED, Verdict.FOREIGN})
"""Verdicts about a fault."""


class Tally(NamedTuple):
    """Records of one verdict in a bucket, and the offsets that they span."""

    records_count: int
    batches_count: int
    source_from: int | None
    source_to: int | None
    target_from: int | None
    target_to: int | None

    def plus(self, other: Tally) -> Tally:
        """Return the sum of both."""
        return Tally(
            self.records_count + other.records_count,
            self.batches_count + other.batches_count,
            _least(self.source_from, other.source_from),
            _most(self.source_to, other.source_to),
            _least(self.target_from, other.target_from),
            _most(self.target_to, other.target_to),
        )


Bucket = Mapping[Verdict, Tally]
"""Ten minutes of one partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A faulty batch."""

    verdict: Verdict
    target_from: int
    target_to: int
    source_from: int | None
    source_to: int | None
    records_count: int
    start_ms: int | None
    """Start of its bucket."""
    detail: str
    noticed_at_ms: int


class AuditPlace(NamedTuple):
    """How far the comparison of a partition has come."""

    audited_to: int
    """Everything of the target's log below this offset was compared."""
    receipt_epoch: int = -1
    """Producer epoch of the last compared receipt; -1 before the first."""
    receipt_to: int = -1
    """The target offset behind it."""
    audited_source: int = -1
    """The source offset behind the receipts of that epoch."""
    producer_epoch: int = -1
    """Epoch of the last batch of ours in the log."""
    sequence: int | None = None
    """Sequence of the next batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the audit of one partition has come."""

    target_topic: str
    worker_id: str
    audited_from: int
    place: AuditPlace
    audited_at_ms: int
    waiting: int
    receipts_topic_id: str
    receipts_offset: int
    """Offset in the receipts topic from which a successor reads on."""
    source_end: int | None
    target_log_start: int | None
    written_at_ms: int
    buckets: Mapping[int, Bucket]
    """Growing buckets, by their starts."""


_PROGRESS_PLAIN: Final = tuple(
    each.name for each in fields(Progress) if each.name not in ("place", "buckets")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditorState:
    """A worker's audit of the link."""

    worker_id: str
    at_ms: int
    cpu_share: float
    """Share of one core, over the last minute."""
    failure: str | None


VerdictRecord = tuple[bytes, bytes | None]
"""Key, and value or None to delete."""


def progress_record(flow: FlowKey, progress: Progress) -> VerdictRecord:
    """Return key and value."""
    value: dict[str, Any] = progress.place._asdict()
    for name in _PROGRESS_PLAIN:
        value[name] = getattr(progress, name)
    value["buckets"] = [_encode_bucket(start, each) for start, each in progress.buckets.items()]
    return _key("progress", flow), _dump(value)


def bucket_record(flow: FlowKey, start_ms: int, bucket: Bucket | None) -> VerdictRecord:
    """Return key and value; None deletes the bucket."""
    key = _key("bucket", flow, start_ms=start_ms)
    return key, None if bucket is None else _dump({"bucket": _encode_bucket(start_ms, bucket)})


def finding_record(flow: FlowKey, finding: Finding, *, is_deleted: bool = False) -> VerdictRecord:
    """Return key and value."""
    key = _key("finding", flow, verdict=finding.verdict.value, target_from=finding.target_from)
    if is_deleted:
        return key, None
    names = ("target_to", "source_from", "source_to", "records_count", "start_ms", "detail",
             "noticed_at_ms")  # fmt: skip
    return key, _dump({name: getattr(finding, name) for name in names})


def auditor_record(state: AuditorState) -> VerdictRecord:
    """Return key and value."""
    key = _dump({"kind": "auditor", "worker_id": state.worker_id})
    value = {"at_ms": state.at_ms, "cpu_share": state.cpu_share, "failure": state.failure}
    return key, _dump(value)


class FlowVerdicts:
    """What is known of one partition."""

    def __init__(self) -> None:
        self.progress: Progress | None = None
        self.closed: dict[int, Bucket] = {}
        self.findings: dict[tuple[Verdict, int], Finding] = {}
        """By verdict and target offset."""
        self.version = 0
        """Grows with every record about the partition."""

    def buckets(self) -> dict[int, Bucket]:
        """Return the buckets by their starts, ascending."""
        growing = self.progress.buckets if self.progress is not None else {}
        return dict(sorted({**self.closed, **growing}.items()))


class VerdictTopic:
    """A verdicts topic, replayed: feed every record in log order, query at any time."""

    def __init__(self) -> None:
        self._flows: dict[FlowKey, FlowVerdicts] = {}
        self._by_partition: dict[tuple[str, int], list[FlowKey]] = {}
        self.auditors: dict[str, AuditorState] = {}
        """By worker."""

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Take in the next record of the topic; a null value deletes. Raises MapFormatError."""
        if key is None:
            raise MapFormatError("a record without a key")
        try:
            self._replay(_object(key), None if value is None else _object(value))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MapFormatError(f"not a record of verdicts: {error!r}") from error

    def _replay(self, k: dict[str, Any], v: dict[str, Any] | None) -> None:
        if k["kind"] == "auditor":
            self.auditors.pop(str(k["worker_id"]), None)
            if v is not None:
                state = AuditorState(
                    worker_id=str(k["worker_id"]),
                    at_ms=int(v["at_ms"]),
                    cpu_share=float(v["cpu_share"]),
                    failure=v["failure"],
                )
                self.auditors[state.worker_id] = state
            return
        flow = _flow(k)
        verdicts = self._flows.get(flow)
        if verdicts is None:
            verdicts = self._flows[flow] = FlowVerdicts()
            self._by_partition.setdefault((flow.source_topic, flow.partition), []).append(flow)
        verdicts.version += 1
        match k["kind"]:
            case "progress":
                verdicts.progress = None if v is None else _decode_progress(v)
            case "bucket":
                verdicts.closed.pop(int(k["start_ms"]), None)
                if v is not None:
                    start_ms, bucket = _decode_bucket(v["bucket"])
                    verdicts.closed[start_ms] = bucket
            case "finding":
                place = Verdict(k["verdict"]), int(k["target_from"])
                verdicts.findings.pop(place, None)
                if v is not None:
                    verdicts.findings[place] = _decode_finding(*place, v)
            case kind:
                raise MapFormatError(f"unknown kind of record {kind!r}")

    def flow(self, flow: FlowKey) -> FlowVerdicts:
        """Return what is known of a flow; empty if nothing is."""
        return self._flows.get(flow) or FlowVerdicts()

    def older(self, flow: FlowKey) -> list[FlowKey]:
        """Return the same partition's flows of other topic ids."""
        known = self._by_partition.get((flow.source_topic, flow.partition), ())
        return [each for each in known if each != flow]

    def forgetting(self, flow: FlowKey) -> list[VerdictRecord]:
        """Return the records that delete everything about a flow."""
        known = self.flow(flow)
        return [
            *(bucket_record(flow, start_ms, None) for start_ms in known.closed),
            *(finding_record(flow, each, is_deleted=True) for each in known.findings.values()),
            *([(_key("progress", flow), None)] if known.progress is not None else []),
        ]

    def flows(self) -> Iterator[tuple[FlowKey, FlowVerdicts]]:
        """Yield every flow of which something is known."""
        yield from self._flows.items()


def _decode_progress(v: dict[str, Any]) -> Progress:
    return Progress(
        target_topic=str(v["target_topic"]),
        worker_id=str(v["worker_id"]),
        audited_from=int(v["audited_from"]),
        place=AuditPlace(
            audited_to=int(v["audited_to"]),
            receipt_epoch=int(v["receipt_epoch"]),
            receipt_to=int(v["receipt_to"]),
            audited_source=int(v["audited_source"]),
            producer_epoch=int(v["producer_epoch"]),
            sequence=_optional(v["sequence"]),
        ),
        audited_at_ms=int(v["audited_at_ms"]),
        waiting=int(v["waiting"]),
        receipts_topic_id=str(v["receipts_topic_id"]),
        receipts_offset=int(v["receipts_offset"]),
        source_end=_optional(v["source_end"]),
        target_log_start=_optional(v["target_log_start"]),
        written_at_ms=int(v["written_at_ms"]),
        buckets=dict(_decode_bucket(each) for each in v["buckets"]),
    )


def _decode_finding(verdict: Verdict, target_from: int, v: dict[str, Any]) -> Finding:
    return Finding(
        verdict=verdict,
        target_from=target_from,
        target_to=int(v["target_to"]),
        source_from=_optional(v["source_from"]),
        source_to=_optional(v["source_to"]),
        records_count=int(v["records_count"]),
        start_ms=_optional(v["start_ms"]),
        detail=str(v["detail"]),
        noticed_at_ms=int(v["noticed_at_ms"]),
    )


def _encode_bucket(start_ms: int, bucket: Bucket) -> list[Any]:
    return [start_ms, {verdict.value: list(tally) for verdict, tally in bucket.items()}]


def _decode_bucket(entry: Any) -> tuple[int, Bucket]:
    start_ms, verdicts = entry
    tallies = {
        Verdict(name): Tally(int(tally[0]), int(tally[1]), *map(_optional, tally[2:6]))
        for name, tally in verdicts.items()
    }
    return int(start_ms), tallies


def _key(kind: str, flow: FlowKey, **more: object) -> bytes:
    return _dump(
        {
            "kind": kind,
            "source_topic": flow.source_topic,
            "partition": flow.partition,
            "source_topic_id": str(flow.source_topic_id),
            "target_topic_id": str(flow.target_topic_id),
            **more,
        }
    )


def _flow(k: dict[str, Any]) -> FlowKey:
    return FlowKey(
        str(k["source_topic"]),
        int(k["partition"]),
        uuid.UUID(k["source_topic_id"]),
        uuid.UUID(k["target_topic_id"]),
    )


def _object(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data)
    if found["version"] != VERDICTS_VERSION:
        raise MapFormatError(
            f"verdicts version {found['version']}; this reader knows {VERDICTS_VERSION}"
        )
    return found


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps({"version": VERDICTS_VERSION, **value}, separators=(",", ":")).encode()


def _optional(value: Any) -> int | None:
    return None if value is None else int(value)


def _least(left: int | None, right: int | None) -> int | None:
    return right if left is None else left if right is None else min(left, right)


def _most(left: int | None, right: int | None) -> int | None:
    return right if left is None else left if right is None else max(left, right)
