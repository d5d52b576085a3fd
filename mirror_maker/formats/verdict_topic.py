"""A whole verdicts topic, replayed. `verdicts.py` has its format. Pure."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from mirror_maker.formats.fields import MapFormatError
from mirror_maker.formats.records import FlowKey
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
            *([progress_record(flow, None)] if known.progress is not None else []),
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


def _decode_bucket(entry: Any) -> tuple[int, Bucket]:
    start_ms, verdicts = entry
    tallies = {
        Verdict(name): Tally(int(tally[0]), int(tally[1]), *map(_optional, tally[2:6]))
        for name, tally in verdicts.items()
    }
    return int(start_ms), tallies


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


def _optional(value: Any) -> int | None:
    return None if value is None else int(value)
