"""The stalled partitions of a link."""

from __future__ import annotations

from local_cluster.client.model import TopicPartition
from mirror_maker.link.stalled_partitions import SHOWN_MAX, StalledPartition, find_stalled
from mirror_maker.model import FlowState
from mirror_maker.rules.trouble import Trouble


def flow(
    partition: int,
    state: FlowState,
    trouble: Trouble | None = None,
    reason: str | None = None,
) -> StalledPartition:
    return StalledPartition(TopicPartition("t", partition), state, trouble, reason)


def test_the_worst_comes_first_and_the_rest_is_counted() -> None:
    paused = [flow(n, FlowState.PAUSED, Trouble.TOO_LARGE, "large") for n in range(SHOWN_MAX)]
    failed = flow(99, FlowState.FAILED, Trouble.RECREATED, "deleted and re-created")
    still = find_stalled([*paused, failed])
    assert still.worst[:2] == (failed, paused[0])
    assert (len(still.worst), still.more) == (SHOWN_MAX, 1)
    assert still.sentence() == (
        "t-99 is FAILED (recreated): deleted and re-created; 10 more are stopped"
    )
    assert (find_stalled([failed, paused[0]]).sentence() or "").endswith(
        "; 1 more partition is stopped"
    )
    assert failed.as_json() == {
        "topic": "t",
        "partition": 99,
        "state": "FAILED",
        "trouble": "recreated",
        "reason": "deleted and re-created",
    }


def test_running_held_and_just_started_partitions_are_not_stalled() -> None:
    states = (FlowState.RUNNING, FlowState.CATCHING_UP, FlowState.HELD, FlowState.STARTING)
    still = find_stalled(flow(n, state) for n, state in enumerate(states))
    assert (still.worst, still.more, still.sentence()) == ((), 0, None)


def test_a_starting_partition_that_waits_says_for_what() -> None:
    still = find_stalled([flow(0, FlowState.STARTING, None, "waits for a.t-0 on the target")])
    assert still.sentence() == "t-0 is STARTING: waits for a.t-0 on the target"
