"""The JSON of `/api/v1/completeness`. Pure; an unknown value is null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aggregator.completeness.answers import GlobalAnswer, fast_answer, strict_answer
from aggregator.completeness.parts import HeldBack, PartCompleteness
from mirror_maker.formats.completeness.replayed_topic import PartitionCompleteness
from mirror_maker.formats.completeness.statement import HoldKind

Document = dict[str, Any]


def completeness_document(
    parts: Mapping[str, Sequence[PartCompleteness]],
    *,
    now_ms: int,
    late_ms: int,
    with_partitions: bool,
) -> Document:
    """Return the answers over all topics, per topic, and per datacenter of each topic."""
    everything = [part for found in parts.values() for part in found]
    return {
        "now_ms": now_ms,
        "late_ms": late_ms,
        **_answers(everything, now_ms, late_ms),
        "topics": [
            {
                "topic": topic,
                **_answers(found, now_ms, late_ms),
                "datacenters": [
                    _part(part, with_partitions) for part in found if not part.is_absent
                ],
            }
            for topic, found in parts.items()
        ],
    }


def _answers(parts: Sequence[PartCompleteness], now_ms: int, late_ms: int) -> Document:
    strict, fast = strict_answer(parts), fast_answer(parts, now_ms, late_ms)
    return {
        "strict": _answer(strict),
        "fast": {**_answer(fast), "missing": [_held_back(each) for each in fast.missing]},
    }


def _answer(answer: GlobalAnswer) -> Document:
    return {
        "complete_through_ms": answer.complete_through_ms,
        "state": answer.state.value,
        "held_back_by": None if answer.held_back is None else _held_back(answer.held_back),
    }


def _held_back(holder: HeldBack) -> Document:
    return {
        "datacenter": holder.datacenter,
        "link": holder.link,
        "topic": holder.topic,
        "partition": holder.partition,
        "reason": holder.reason,
        "since_ms": holder.since_ms,
    }


def _part(part: PartCompleteness, with_partitions: bool) -> Document:
    document: Document = {
        "datacenter": part.datacenter,
        "link": part.link,
        "source_topic": part.source_topic,
        "target_topic": part.target_topic,
        "complete_through_ms": part.complete_through_ms,
        "state": part.state.value,
        "gaps": part.gaps,
        "held_back_by": None if part.held_back is None else _held_back(part.held_back),
    }
    if with_partitions:
        document["partitions"] = [_partition(each) for each in part.partitions]
    return document


def _partition(found: PartitionCompleteness) -> Document:
    is_open = found.hold.kind is HoldKind.OPEN_TRANSACTION
    return {
        "partition": found.partition,
        "complete_through_ms": found.complete_through_ms,
        "position": found.position,
        "sampled_ms": found.sampled_ms,
        "source_end": found.end,
        "leader_epoch": None if found.epoch < 0 else found.epoch,
        "gaps": found.gaps,
        "open_transaction_producer_id": (
            found.hold.producer_id if is_open and found.hold.producer_id >= 0 else None
        ),
        "worker_id": found.worker_id,
    }
