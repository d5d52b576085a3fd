"""The steps of a record's way, with times and words. Pure.

    produced, committed       at the source
    copied, complete, audited   per link that copies its topic

A time is a pair of bounds and names the clock that it is by. Clocks of different machines differ,
so bounds of different steps may overlap or cross.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from local_cluster.records.fingerprint import fingerprint_record
from topology.tracing.facts import NO_TIME, Bounds, LinkCopy, LogFacts, Place, Transaction, WayFacts
from topology.why.facts import Fate, RecordFacts
from topology.why.record_causes import LEFT_OUT


class Clock(StrEnum):
    """Whose clock a time is by."""

    PRODUCER = "producer"
    BROKER = "broker"
    MIRROR = "mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step, at one place."""

    name: str
    state: str
    """For programs: a word that does not change."""
    place: Place | None
    cluster: str
    datacenter: str
    link: str | None = None
    time: Bounds = NO_TIME
    clock: Clock | None = None
    """None if the time is unknown."""
    sentence: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


_NOT_COPIED: Final[Mapping[Fate, tuple[str, str]]] = {
    Fate.LEFT_OUT: ("left_out", LEFT_OUT),
    Fate.BEFORE_START: ("before_start", "the link began to copy after it"),
    Fate.PENDING: ("pending", "not copied yet"),
    Fate.NO_MAP: ("pending", "the link has copied nothing of the partition"),
    Fate.UNKNOWN: ("unknown", "the offset map is incomplete there"),
    Fate.TRIMMED: ("trimmed", "the target no longer has the copies of that time"),
}


def way_steps(facts: WayFacts) -> list[Step]:
    """Return the steps in order: those of the source, then those of each copy."""
    steps = [_produced(facts.origin), _committed(facts)]
    for copy in facts.copies:
        steps += _of_copy(copy, facts)
    return steps


def _produced(origin: LogFacts) -> Step:
    stored = origin.stored
    step = _at_origin(origin, "produced")
    if stored is None:
        return replace(step, sentence=origin.missing or "")
    batch, time_ms = stored.batch, stored.record.timestamp_ms
    epoch = batch.partition_leader_epoch
    is_leader_known = epoch == origin.leader_epoch and origin.leader is not None
    words = [f"in a batch of {batch.records_count} at {batch.base_offset}"]
    if is_leader_known:
        words.append(f"leader epoch {epoch}, of broker {origin.leader}")
    elif epoch >= 0:
        words.append(f"leader epoch {epoch}")
    if stored.transaction is not None:
        words.append(f"its transaction is {stored.transaction.value}")
    if time_ms >= 0:
        clock = Clock.BROKER if batch.is_log_append_time else Clock.PRODUCER
        step = replace(step, time=Bounds(time_ms, time_ms), clock=clock)
    return replace(
        step,
        state="done",
        sentence=", ".join(words),
        details={
            "leader_epoch": epoch if epoch >= 0 else None,
            "leader": origin.leader if is_leader_known else None,
            "batch_offset": batch.base_offset,
            "batch_records": batch.records_count,
            "producer_id": batch.producer_id if batch.producer_id >= 0 else None,
            "transaction": None if stored.transaction is None else stored.transaction.value,
        },
    )


def _committed(facts: WayFacts) -> Step:
    """Say when it was committed, by the narrowest statement of the links that read the source."""
    origin = facts.origin
    direct = [each for each in facts.copies if each.source == origin.place]
    time = min((each.stated.committed for each in direct), key=_width, default=NO_TIME)
    for each in direct:
        if each.fate is not None and each.fate.fate is Fate.COPIED:
            time = time.no_later_than(_copy_time(each).not_after_ms)
    is_below_end = origin.end is not None and origin.place.offset < origin.end
    step = replace(
        _at_origin(origin, "committed"),
        time=time,
        clock=Clock.MIRROR if time.is_known else None,
        details={"high_watermark": origin.end, "log_start_offset": origin.start},
    )
    if not is_below_end and time.not_after_ms is None:
        return replace(step, sentence="not known to be committed")
    sentence = "" if origin.end is None else f"the high watermark is {origin.end} now"
    if origin.stored is not None and origin.stored.transaction is Transaction.OPEN:
        sentence += "; read_committed readers wait for the end of its transaction"
    return replace(step, state="done", sentence=sentence)


def _at_origin(origin: LogFacts, name: str) -> Step:
    return Step(
        name=name,
        state="unknown",
        place=origin.place,
        cluster=origin.place.cluster,
        datacenter=origin.datacenter,
    )


def _width(bounds: Bounds) -> float:
    if bounds.not_before_ms is not None and bounds.not_after_ms is not None:
        return bounds.not_after_ms - bounds.not_before_ms
    return float("inf") if bounds.not_after_ms is None else 1e18


def _of_copy(copy: LinkCopy, facts: WayFacts) -> Iterator[Step]:
    yield _copied(copy, facts)
    if copy.problem is not None or copy.fate is None:
        return
    yield _complete(copy)
    if copy.fate.fate is Fate.COPIED:
        yield _audited(copy)


def _copied(copy: LinkCopy, facts: WayFacts) -> Step:
    step = _at_copy(copy, "copied")
    if copy.problem is not None or copy.fate is None:
        return replace(step, sentence=copy.problem or "")
    state, sentence = _fate_words(copy, copy.fate, facts)
    time, batch = _copy_time(copy), copy.batch
    return replace(
        step,
        state=state,
        time=time,
        clock=Clock.MIRROR if time.is_known else None,
        sentence=sentence,
        details={
            "worker_id": copy.stated.worker_id,
            "batch_offset": None if batch is None else batch.target_offset,
            "batch_records": None if batch is None else batch.records_count,
            "producer_epoch": None if batch is None else batch.producer_epoch,
            "sequence": None if batch is None else batch.sequence,
            "mapped_ms": copy.mapped_ms,
            "is_identical": _is_identical(copy, facts),
            "has_batch_span": copy.has_batch_spans and batch is not None,
        },
    )


def _copy_time(copy: LinkCopy) -> Bounds:
    """Return when the target acknowledged the copy: receipts and map are written after that."""
    time = copy.stated.passed
    if copy.fate is None or copy.fate.fate is not Fate.COPIED:
        return time
    time = time.no_later_than(copy.mapped_ms)
    time = time.no_later_than(None if copy.batch is None else copy.batch.written_ms)
    return time.no_earlier_than(copy.stated.committed.not_before_ms)


def _at_copy(copy: LinkCopy, name: str) -> Step:
    return Step(
        name=name,
        state="unknown",
        place=None if copy.log is None else copy.log.place,
        cluster=copy.target,
        datacenter=copy.datacenter,
        link=copy.link,
    )


def _fate_words(copy: LinkCopy, fate: RecordFacts, facts: WayFacts) -> tuple[str, str]:
    if fate.fate is not Fate.COPIED:
        if fate.gap is not None:
            return "in_gap", f"in a gap of the link ({fate.gap['reason']}): {fate.gap['detail']}"
        return _NOT_COPIED[fate.fate]
    words = []
    if copy.batch is not None:
        words.append(f"in a batch of {copy.batch.records_count} at {copy.batch.target_offset}")
    is_identical = _is_identical(copy, facts)
    if is_identical is not None:
        words.append("identical to the record" if is_identical else "changed by the link's rules")
    if copy.log is not None and copy.log.missing is not None:
        words.append(copy.log.missing)
    return "done", ", ".join(words)


def _is_identical(copy: LinkCopy, facts: WayFacts) -> bool | None:
    """Return whether the copy has time, key, value and headers of the record; None if unknown."""
    here = None if copy.log is None else copy.log.stored
    there = facts.origin.stored
    if here is None or there is None:
        return None
    return fingerprint_record(here.record) == fingerprint_record(there.record)


def _complete(copy: LinkCopy) -> Step:
    """Say whether answers over all datacenters count the record."""
    committed_ms, from_ms = copy.stated.committed.not_after_ms, copy.stated.complete_from_ms
    answer = copy.aggregate
    words = ["the link has not stated that its copy is complete through its commit"]
    if from_ms is not None:
        words = ["the link has stated that its copy is complete through its commit"]
    if answer is not None:
        words += _answer_words(copy, answer, committed_ms)
    return replace(
        _at_copy(copy, "complete"),
        state="unknown" if from_ms is None else "done",
        time=Bounds(None, from_ms),
        clock=None if from_ms is None else Clock.MIRROR,
        sentence="; ".join(words),
        details={"aggregate": answer},
    )


def _answer_words(
    copy: LinkCopy, answer: Mapping[str, Any], committed_ms: int | None
) -> Iterator[str]:
    """Yield what the aggregator's present answers do with the record."""
    strict = answer["strict"]
    through_ms, holder = strict["complete_through_ms"], strict["held_back_by"]
    if committed_ms is not None and through_ms is not None and through_ms >= committed_ms:
        yield "strict answers over all datacenters include it"
    elif holder is not None:
        yield f"strict answers wait for {holder['datacenter']} ({holder['reason']})"
    for each in answer["fast"]["missing"]:
        if each["link"] == copy.link:
            yield f"fast answers go on without {each['datacenter']} ({each['reason']})"


def _audited(copy: LinkCopy) -> Step:
    step, audited = _at_copy(copy, "audited"), copy.audited
    if audited is None:
        return replace(step, sentence="the link is not audited")
    if audited.finding is not None:
        return replace(step, state="doubted", sentence=f"the audit found {audited.finding}")
    if not audited.is_compared:
        return replace(step, state="pending", sentence="the audit has not read so far yet")
    return replace(
        step,
        state="done",
        time=Bounds(None, audited.at_ms),
        clock=Clock.MIRROR,
        sentence="the audit has compared its batch with the target's log",
    )
