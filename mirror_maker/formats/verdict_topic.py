"""A whole verdicts topic, replayed. `verdicts.py` has its format. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from local_cluster.foreign_json import INT32_MAX, integer, string
from mirror_maker.formats.fields import (
    MapFormatError,
    check_range,
    optional_integer,
    versioned_object,
)
from mirror_maker.formats.records import FlowKey, flow_of
from mirror_maker.formats.verdicts import (
    VERDICTS_VERSION,
    AuditorState,
    AuditPlace,
    Bucket,
    Finding,
    Progress,
    Tally,
    Verdict,
    VerdictRecord,
    bucket_record,
    finding_record,
    progress_record,
)


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
        """Take in the next record of the topic; a null value deletes. Raises MapFormatError.

        A record that is refused changes nothing.
        """
        if key is None:
            raise MapFormatError("a record without a key")
        try:
            k = versioned_object(key, "verdicts", VERDICTS_VERSION)
            v = None if value is None else versioned_object(value, "verdicts", VERDICTS_VERSION)
            if k["kind"] == "auditor":
                self._replay_auditor(k, v)
            else:
                self._replay_verdict(k, v)
        except (KeyError, TypeError, ValueError) as error:
            raise MapFormatError(f"not a record of verdicts: {error}") from error

    def _replay_auditor(self, k: dict[str, Any], v: dict[str, Any] | None) -> None:
        worker_id = string(k["worker_id"])
        if v is None:
            self.auditors.pop(worker_id, None)
            return
        state = _decode_auditor(worker_id, v)
        self.auditors.pop(worker_id, None)
        self.auditors[worker_id] = state

    def _replay_verdict(self, k: dict[str, Any], v: dict[str, Any] | None) -> None:
        flow = flow_of(k)
        match k["kind"]:
            case "progress":
                progress = None if v is None else _decode_progress(v)
                self._known(flow).progress = progress
            case "bucket":
                start_ms = integer(k["start_ms"])
                bucket = None if v is None else _decode_bucket(v["bucket"], start_ms)[1]
                closed = self._known(flow).closed
                closed.pop(start_ms, None)
                if bucket is not None:
                    closed[start_ms] = bucket
            case "finding":
                place = Verdict(string(k["verdict"])), integer(k["target_from"], 0)
                finding = None if v is None else _decode_finding(*place, v)
                findings = self._known(flow).findings
                findings.pop(place, None)
                if finding is not None:
                    findings[place] = finding
            case kind:
                raise MapFormatError(f"unknown kind of record {string(kind)[:40]!r}")

    def _known(self, flow: FlowKey) -> FlowVerdicts:
        """Return what is known of a flow, to be changed by a record."""
        verdicts = self._flows.get(flow)
        if verdicts is None:
            verdicts = self._flows[flow] = FlowVerdicts()
            self._by_partition.setdefault((flow.source_topic, flow.partition), []).append(flow)
        verdicts.version += 1
        return verdicts

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
            *([progress_record(flow, None)] if known.progress is not None else []),
        ]

    def flows(self) -> Iterator[tuple[FlowKey, FlowVerdicts]]:
        """Yield every flow of which something is known."""
        yield from self._flows.items()


def _decode_auditor(worker_id: str, v: dict[str, Any]) -> AuditorState:
    cpu_share, failure = v["cpu_share"], v["failure"]
    if not isinstance(cpu_share, int | float) or not 0 <= cpu_share <= INT32_MAX:
        raise MapFormatError("an auditor without its share of a CPU")
    return AuditorState(
        worker_id=worker_id,
        at_ms=integer(v["at_ms"]),
        cpu_share=float(cpu_share),
        failure=None if failure is None else string(failure),
    )


def _decode_progress(v: dict[str, Any]) -> Progress:
    return Progress(
        target_topic=string(v["target_topic"]),
        worker_id=string(v["worker_id"]),
        audited_from=integer(v["audited_from"]),
        place=AuditPlace(
            audited_to=integer(v["audited_to"]),
            receipt_epoch=integer(v["receipt_epoch"]),
            receipt_to=integer(v["receipt_to"]),
            audited_source=integer(v["audited_source"]),
            producer_epoch=integer(v["producer_epoch"]),
            sequence=optional_integer(v["sequence"]),
        ),
        audited_at_ms=integer(v["audited_at_ms"]),
        waiting=integer(v["waiting"], 0),
        receipts_topic_id=string(v["receipts_topic_id"]),
        receipts_offset=integer(v["receipts_offset"]),
        source_end=optional_integer(v["source_end"]),
        target_log_start=optional_integer(v["target_log_start"]),
        written_at_ms=integer(v["written_at_ms"]),
        buckets=dict(_decode_bucket(each) for each in v["buckets"]),
    )


def _decode_finding(verdict: Verdict, target_from: int, v: dict[str, Any]) -> Finding:
    finding = Finding(
        verdict=verdict,
        target_from=target_from,
        target_to=integer(v["target_to"], 0),
        source_from=optional_integer(v["source_from"], 0),
        source_to=optional_integer(v["source_to"], 0),
        records_count=integer(v["records_count"], 0),
        start_ms=optional_integer(v["start_ms"]),
        detail=string(v["detail"]),
        noticed_at_ms=integer(v["noticed_at_ms"]),
    )
    _check_side(finding.source_from, finding.source_to)
    _check_side(finding.target_from, finding.target_to)
    return finding


def _decode_bucket(entry: Any, expected_ms: int | None = None) -> tuple[int, Bucket]:
    start_ms, verdicts = integer(entry[0]), entry[1]
    if expected_ms not in (None, start_ms) or not isinstance(verdicts, dict) or len(entry) != 2:
        raise MapFormatError("a bucket under the key of another one")
    return start_ms, {Verdict(name): _decode_tally(tally) for name, tally in verdicts.items()}


def _decode_tally(values: Any) -> Tally:
    records_count, batches_count, *offsets = values
    source_from, source_to, target_from, target_to = (optional_integer(at, 0) for at in offsets)
    _check_side(source_from, source_to)
    _check_side(target_from, target_to)
    return Tally(
        integer(records_count, 0),
        integer(batches_count, 0),
        source_from,
        source_to,
        target_from,
        target_to,
    )


def _check_side(start: int | None, end: int | None) -> None:
    """Refuse offsets that run backwards, or of which one is missing."""
    if start is None or end is None:
        if start is not end:
            raise MapFormatError(f"half a range of offsets: {start} to {end}")
        return
    check_range(start, end)
