"""MirrorMaker 2's offset syncs, derived from runs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from local_cluster.client.model import TopicPartition
from mirror_maker.copy.mm2_offset_syncs import SYNCS_PENDING_MAX, FlowSyncs
from mirror_maker.formats import Run
from mirror_maker.formats.mm2 import OffsetSync

AT = TopicPartition("t", 2)


def sync(upstream: int, downstream: int) -> OffsetSync:
    return OffsetSync("t", 2, upstream, downstream)


def test_the_first_the_last_and_every_gap() -> None:
    syncs = FlowSyncs(AT)
    syncs.append(Run(10, 0, 5))
    syncs.append(Run(15, 5, 5))
    assert syncs.take() == [sync(10, 0), sync(19, 9)]
    assert syncs.take() == []
    syncs.append(Run(20, 10, 1))
    assert syncs.take() == [sync(20, 10)]
    syncs.append(Run(22, 11, 3))
    assert syncs.take() == [sync(22, 11), sync(24, 13)]


def test_syncs_that_were_not_written_come_first_again() -> None:
    syncs = FlowSyncs(AT)
    syncs.append(Run(0, 0, 2))
    taken = syncs.take()
    syncs.append(Run(2, 2, 2))
    syncs.put_back(taken)
    assert syncs.take() == [sync(0, 0), sync(1, 1), sync(3, 3)]


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5), st.booleans()),
        max_size=60,
    )
)
def test_every_sync_is_true_and_shows_gaps(steps: list[tuple[int, int, int, bool]]) -> None:
    """Each sync has a copied record and its place, in order; a flush ends with the last one."""
    syncs = FlowSyncs(AT)
    placed: dict[int, int] = {}
    told: list[OffsetSync] = []
    upstream = downstream = 0
    for hole, foreign, count, flush in steps:
        upstream += hole
        downstream += foreign
        syncs.append(Run(upstream, downstream, count))
        is_first = not placed
        placed |= {upstream + n: downstream + n for n in range(count)}
        first_after_gap = sync(upstream, downstream) if hole or foreign or is_first else None
        upstream += count
        downstream += count
        if flush:
            told += syncs.take()
            assert told[-1] == sync(upstream - 1, downstream - 1)
            assert first_after_gap is None or first_after_gap in told
    told += syncs.take()
    assert [each.upstream_offset for each in told] == sorted(
        {each.upstream_offset for each in told}
    )
    assert all(placed[each.upstream_offset] == each.downstream_offset for each in told)


def test_waiting_syncs_are_bounded_and_end_with_the_newest() -> None:
    syncs = FlowSyncs(AT)
    for n in range(3 * SYNCS_PENDING_MAX):
        syncs.append(Run(2 * n, n, 1))
    taken = syncs.take()
    assert len(taken) <= SYNCS_PENDING_MAX
    assert taken[-1] == sync(2 * (3 * SYNCS_PENDING_MAX - 1), 3 * SYNCS_PENDING_MAX - 1)
