"""Strict, fast and per-datacenter answers, and who is named."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from aggregator.completeness.answers import fast_answer, strict_answer
from aggregator.completeness.parts import (
    SILENT_MS,
    CompletenessState,
    PartCompleteness,
    part_completeness,
)
from mirror_maker.formats.completeness.replayed_topic import PartitionCompleteness
from mirror_maker.formats.completeness.statement import NO_HOLD, Hold, HoldKind

NOW_MS = 1_700_000_000_000


def partition(index: int = 0, through_ms: int | None = NOW_MS - 400, **changed: Any) -> Any:
    """Return a partition that is complete but for the last response."""
    found: dict[str, Any] = {
        "topic": "flights",
        "partition": index,
        "topic_id": uuid.UUID(int=1),
        "generation": 0,
        "position": 9,
        "epoch": 1,
        "sampled_ms": NOW_MS - 400,
        "end": 9,
        "complete_through_ms": through_ms,
        "proved_through_ms": None,
        "gaps": 0,
        "hold": NO_HOLD,
        "worker_id": "w",
        "written_ms": NOW_MS - 100,
        "listed_ms": NOW_MS - 300,
    }
    return PartitionCompleteness(**found | changed)


def part(
    *partitions: PartitionCompleteness, datacenter: str = "jfk", count: int | None = None
) -> PartCompleteness:
    return part_completeness(
        link=f"{datacenter}-nyc",
        datacenter=datacenter,
        source_topic="flights",
        target_topic=f"{datacenter}.flights",
        partitions_count=len(partitions) if count is None else count,
        known={each.partition: each for each in partitions},
        now_ms=NOW_MS,
    )


def test_a_copy_is_complete_through_the_least_time_of_its_partitions() -> None:
    found = part(partition(0), partition(1, NOW_MS - 700))
    assert (found.complete_through_ms, found.state) == (NOW_MS - 700, CompletenessState.COMPLETE)
    assert found.held_back is None


def test_gaps_are_a_state_of_their_own() -> None:
    found = part(partition(0, gaps=2), partition(1))
    assert (found.state, found.gaps) == (CompletenessState.WITH_GAPS, 2)
    assert strict_answer([found, part(partition(), datacenter="ewr")]).state == "complete_with_gaps"


def test_a_partition_that_nobody_states_is_unknown() -> None:
    found = part(partition(0), count=2)
    assert (found.complete_through_ms, found.state) == (None, CompletenessState.UNKNOWN)
    assert found.held_back is not None and found.held_back.partition == 1
    assert part().state is CompletenessState.UNKNOWN


LATE_MS = NOW_MS - SILENT_MS - 1


@pytest.mark.parametrize(
    ("changed", "reason", "since_ms"),
    [
        ({"end": 12}, "3 offsets are not copied yet", NOW_MS - 400),
        ({"sampled_ms": LATE_MS}, "its source has not answered since", NOW_MS - 400),
        ({"written_ms": LATE_MS}, "its mirror worker w has not reported since", NOW_MS - 400),
        (
            {"listed_ms": LATE_MS},
            "its mirror has not listed the topics and partitions of its source since",
            NOW_MS - 400,
        ),
        (
            {"listed_ms": None},
            "its mirror does not state which partitions its source has: "
            "all of its workers are of an older version",
            NOW_MS - 400,
        ),
        (
            {"is_stated": False, "sampled_ms": None},
            "its source has it, and no mirror worker has stated anything about it yet",
            NOW_MS - 400,
        ),
        (
            {"hold": Hold(HoldKind.STOPPED, state="FAILED")},
            "its mirror has stopped it: FAILED",
            NOW_MS - 400,
        ),
        (
            {"hold": Hold(HoldKind.OPEN_TRANSACTION, 7, NOW_MS - 90_000), "end": 12},
            "an open transaction of producer id 7",
            NOW_MS - 90_000,
        ),
    ],
)
def test_the_partition_that_holds_back_is_named(
    changed: dict[str, Any], reason: str, since_ms: int
) -> None:
    holder = part(partition(0, NOW_MS), partition(1, **changed)).held_back
    assert holder is not None
    assert (holder.partition, holder.reason, holder.since_ms) == (1, reason, since_ms)


def test_a_dead_datacenter_neither_freezes_nor_falsifies() -> None:
    dead_ms = NOW_MS - 60_000
    dead = part(partition(0, dead_ms, sampled_ms=dead_ms, written_ms=dead_ms), datacenter="ewr")
    alive = part(partition(0))
    strict = strict_answer([alive, dead])
    assert strict.complete_through_ms == dead_ms
    assert strict.held_back is not None and strict.held_back.datacenter == "ewr"
    fast = fast_answer([alive, dead], NOW_MS, 30_000)
    assert (fast.complete_through_ms, fast.held_back) == (NOW_MS - 400, None)
    assert [(each.datacenter, each.since_ms) for each in fast.missing] == [("ewr", dead_ms)]


def test_without_any_datacenter_nothing_is_claimed() -> None:
    unknown = part(partition(0, None))
    assert strict_answer([]).state is CompletenessState.UNKNOWN
    assert strict_answer([unknown, part(partition())]).complete_through_ms is None
    fast = fast_answer([unknown], NOW_MS, 30_000)
    assert (fast.complete_through_ms, len(fast.missing)) == (None, 1)
