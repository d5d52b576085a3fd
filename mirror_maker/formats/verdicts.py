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
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final, NamedTuple

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


def progress_record(flow: FlowKey, progress: Progress | None) -> VerdictRecord:
    """Return key and value; None deletes the progress."""
    if progress is None:
        return _key("progress", flow), None
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


def _encode_bucket(start_ms: int, bucket: Bucket) -> list[Any]:
    return [start_ms, {verdict.value: list(tally) for verdict, tally in bucket.items()}]


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


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps({"version": VERDICTS_VERSION, **value}, separators=(",", ":")).encode()


def _least(left: int | None, right: int | None) -> int | None:
    return right if left is None else left if right is None else min(left, right)


def _most(left: int | None, right: int | None) -> int | None:
    return right if left is None else left if right is None else max(left, right)
