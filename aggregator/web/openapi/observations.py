"""The answers about completeness, audits and probes, as types."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from aggregator.completeness.parts import CompletenessState
from aggregator.web.openapi.answers import Answer
from mirror_maker.formats.verdicts import Verdict


class HeldBack(Answer):
    """What keeps an answer from being complete through a later time."""

    datacenter: str
    link: str
    topic: str
    partition: int | None
    reason: str
    since_ms: int | None


class StrictAnswer(Answer):
    """The answer that waits for every datacenter."""

    complete_through_ms: int | None
    state: CompletenessState
    held_back_by: HeldBack | None


class FastAnswer(StrictAnswer):
    """The answer that continues without datacenters that are late."""

    missing: list[HeldBack]


class PartitionCompleteness(Answer):
    """What a mirror states of one source partition."""

    partition: int
    complete_through_ms: int | None
    position: int
    """The source offset of the next record to copy."""
    sampled_ms: int | None
    source_end: int | None
    """Where the source ended at `sampled_ms`."""
    leader_epoch: int | None
    gaps: int
    open_transaction_producer_id: int | None
    worker_id: str


class DatacenterCompleteness(Answer):
    """The copy of a merged topic by one link."""

    datacenter: str
    link: str
    source_topic: str
    target_topic: str
    complete_through_ms: int | None
    state: CompletenessState
    gaps: int
    held_back_by: HeldBack | None
    partitions: list[PartitionCompleteness] = Field(default=[])
    """Present if a topic is asked for."""


class TopicCompleteness(Answer):
    """A merged topic over all datacenters."""

    topic: str
    strict: StrictAnswer
    fast: FastAnswer
    datacenters: list[DatacenterCompleteness]


class WorkerClock(Answer):
    """The clock of a mirror worker, against the aggregator's."""

    worker_id: str
    skew_ms: int
    error_ms: int
    """The true skew differs by at most this."""


class Completeness(Answer):
    """Until when merged topics are complete. Times are milliseconds of the workers' clocks."""

    aggregate: str
    now_ms: int
    late_ms: int
    """Without news for longer, a fast answer continues without a datacenter."""
    strict: StrictAnswer
    fast: FastAnswer
    topics: list[TopicCompleteness]
    clocks: list[WorkerClock]


class AuditRow(Answer):
    """Records of one partition and bucket with the same verdict."""

    verdict: Verdict
    start_ms: int | None
    """The start of the bucket of record timestamps."""
    records: int
    batches: int
    source_from: int | None
    source_to: int | None
    target_from: int | None
    target_to: int | None
    reason: str | None


class AuditFinding(Answer):
    """A fault that the audit has found."""

    verdict: Verdict
    records: int
    source_from: int | None
    source_to: int | None
    target_from: int | None
    target_to: int | None
    start_ms: int | None
    detail: str
    noticed_at_ms: int


class AuditedPartition(Answer):
    """The audit of one source partition."""

    topic: str
    partition: int
    target_topic: str
    audited_from: int | None
    audited_to: int | None
    audited_at_ms: int | None
    age_seconds: float | None
    batches_waiting: int | None
    records: dict[Verdict, int]
    rows: list[AuditRow]
    """All of them if a topic is asked for, else those of faults."""
    findings: list[AuditFinding]


class Auditor(Answer):
    """The audit of a link on one worker."""

    worker_id: str
    age_seconds: float
    cpu_share: float
    failure: str | None


class LinkAudit(Answer):
    """The audit of a link."""

    link: str
    datacenter: str
    source: str
    target: str
    problem: str | None
    is_well: bool
    age_seconds: float | None
    records: dict[Verdict, int]
    findings: int
    auditors: list[Auditor]
    partitions: list[AuditedPartition]


class Audit(Answer):
    """The audits of the links."""

    bucket_ms: int
    links: list[LinkAudit]


class ProbeSequences(Answer):
    """The first sequences of each fault."""

    lost: list[int]
    doubled: list[int]
    out_of_order: list[int]
    altered: list[int]


class ProbeLatency(Answer):
    """From sending a probe to reading its copy, in milliseconds."""

    last: float | None
    p50: float | None
    p99: float | None
    bounds: list[float]
    counts: list[int]


class RunningProbe(Answer):
    """A link that is probed."""

    link: str
    datacenter: str
    source: str
    state: str
    reason: str | None
    topic: str
    target_topic: str
    run_id: str
    sent: int
    received: int
    lost: int
    doubled: int
    out_of_order: int
    altered: int
    sequences: ProbeSequences
    last_fault_age_seconds: float | None
    under_way: int
    late: int
    expired: int
    unknown: int
    last_arrival_age_seconds: float | None
    latency_ms: ProbeLatency
    problems: list[str]


class ProbeOff(Answer):
    """A link that is not probed."""

    link: str
    datacenter: str
    source: str
    state: Literal["off"]
    reason: None


class Probes(Answer):
    """The probes of the links."""

    links: list[RunningProbe | ProbeOff]
