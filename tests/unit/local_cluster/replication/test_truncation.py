"""Where a follower's log diverges from its leader's, and where it is truncated."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from local_cluster.log.state.epochs import EpochEnd, EpochEntry, LeaderEpochs
from local_cluster.replication.truncation import decide_truncation, find_divergence

LEADER_EPOCH = 99
"""Newer than any epoch of a log: the leader was elected, and has written nothing yet."""

Log = list[int]
"""The epoch of each record, by offset. Logs differ only in the epochs of their records."""


def epochs_of(log: Log) -> LeaderEpochs:
    return LeaderEpochs(
        EpochEntry(epoch, offset)
        for offset, epoch in enumerate(log)
        if offset == 0 or log[offset - 1] != epoch
    )


def agree(leader: Log, follower: Log, high_watermark: int = 0) -> list[Log]:
    """Return the follower's log after each response, until the leader finds no divergence."""
    steps: list[Log] = []
    epochs = epochs_of(leader)
    epochs.assign(LEADER_EPOCH, len(leader))
    while True:
        last = follower[-1] if follower else -1
        answer = find_divergence(len(follower), last, epochs.end_of(last, len(leader)))
        if answer is None:
            return steps
        offset = decide_truncation(answer, epochs_of(follower), len(follower), high_watermark)
        assert offset < len(follower), "every round truncates something"
        follower = follower[:offset]
        steps.append(follower)


def test_a_prefix_stays() -> None:
    assert agree([1, 1, 2, 2], [1, 1]) == []
    assert agree([1, 1, 2, 2], [1, 1, 2, 2]) == []
    assert agree([1, 1], []) == []


def test_a_tail_of_the_same_epoch_that_the_leader_lost_is_truncated() -> None:
    assert agree([1, 1], [1, 1, 1, 1]) == [[1, 1]]


def test_a_tail_of_an_epoch_that_the_leader_lacks_is_truncated() -> None:
    """KIP-101's loss: the high watermark would keep what the leader never had."""
    assert agree([1, 1, 3], [1, 1, 2, 2], high_watermark=4) == [[1, 1]]


def test_several_rounds_if_both_have_epochs_that_the_other_lacks() -> None:
    """KIP-279: two leader changes in a row."""
    assert agree([1, 3, 5, 5], [1, 2, 4, 4]) == [[1, 2], [1]]
    assert agree([1, 1, 3, 5], [1, 2, 2, 4, 4])[-1] == [1]


def test_under_a_leader_without_epochs_committed_records_are_kept() -> None:
    answer = find_divergence(4, 2, EpochEnd(-1, -1))
    assert answer is not None
    assert decide_truncation(answer, epochs_of([1, 1, 2, 2]), 4, 3) == 3


@st.composite
def histories(draw: st.DrawFn) -> tuple[Log, Log, int]:
    """Two possible logs: in each epoch one leader appends to its own log."""
    logs: list[Log] = [[], []]
    for epoch in range(1, draw(st.integers(1, 6)) + 1):
        leader = draw(st.integers(0, 1))
        logs[leader] = logs[leader] + [epoch] * draw(st.integers(0, 3))
        if draw(st.booleans()):  # the other one follows for a while
            other = 1 - leader
            same = _common(logs[leader], logs[other])
            logs[other] = logs[leader][: draw(st.integers(same, len(logs[leader])))]
    return logs[0], logs[1], _common(*logs)


def _common(one: Log, other: Log) -> int:
    for offset, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return offset
    return min(len(one), len(other))


@given(histories())
def test_the_rest_is_exactly_what_both_have(history: tuple[Log, Log, int]) -> None:
    leader, follower, common = history
    left = ([follower, *agree(leader, follower)])[-1]
    assert left == leader[: len(left)], "it is a prefix of the leader's log"
    assert len(left) == common, "and nothing that both have is truncated"
