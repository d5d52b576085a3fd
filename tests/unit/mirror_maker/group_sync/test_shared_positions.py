"""What holds a group back in a partition of several links."""

from __future__ import annotations

import uuid

from mirror_maker.formats import Block, FlowKey, MapTopic, OffsetMap, Opening, Run, encode_record
from mirror_maker.group_sync.position_rules import SyncState
from mirror_maker.group_sync.shared_positions import REREAD_RUNS_MAX, SharedFlow, safe_position
from mirror_maker.stores.cluster_maps import FollowedMap

FLOW = FlowKey("t", 0, uuid.UUID(int=1), uuid.UUID(int=2))


def flow(link: str, *runs: Run, committed: int | None, source_end: int | None = None) -> SharedFlow:
    offset_map = OffsetMap(runs[0].source_offset, runs[0].target_offset)
    for run in runs:
        offset_map.append(run)
    return SharedFlow(link, offset_map, offset_map.target_start, committed, source_end)


def east(committed: int | None, source_end: int | None = None) -> SharedFlow:
    """Ten records at 0..9 and ten at 20..29 of the target."""
    return flow("east", Run(0, 0, 10), Run(10, 20, 10), committed=committed, source_end=source_end)


def west(committed: int | None, source_end: int | None = None) -> SharedFlow:
    """Ten records between those of east, five behind them."""
    return flow("west", Run(0, 10, 10), Run(10, 30, 5), committed=committed, source_end=source_end)


def test_the_first_unread_record_of_any_link_is_the_place() -> None:
    # The group is at east's record 10 (at 20) and at west's 4 (at 14): east's ten at 0..9 are
    # behind.
    assert safe_position([east(12), west(4)], 35, 0) == (SyncState.MERGED, 14, "west", 2)
    # Between east's 9 and 10 there are only read records of west: they are passed over.
    assert safe_position([east(10), west(12)], 35, 0) == (SyncState.MERGED, 20, "east", 2)


def test_a_link_whose_source_is_read_to_its_end_holds_nothing_back() -> None:
    assert safe_position([east(20, 20), west(15, 15)], 35, 0) == (SyncState.MERGED, 35, None, 0)
    # With an unknown end, or a later one, unread copies may lie behind the map.
    assert safe_position([east(20), west(15, 15)], 35, 0) == (SyncState.MERGED, 30, "east", 5)
    assert safe_position([east(20, 21), west(15, 15)], 35, 0) == (SyncState.MERGED, 30, "east", 5)
    # A position behind the end belongs to another topic of that name and proves nothing.
    assert safe_position([east(25, 20), west(15, 15)], 35, 0) == (SyncState.MERGED, 30, "east", 5)


def test_a_link_without_a_position_holds_the_group_at_its_first_copy() -> None:
    assert safe_position([east(20, 20), west(None, 15)], 35, 0) == (
        SyncState.PARTIAL, 10, "west", 10,
    )  # fmt: skip
    # Records that the target has deleted need not be read.
    assert safe_position([east(20, 20), west(None)], 35, 12).target_offset == 12


def test_a_hole_of_a_map_holds_the_group_at_its_start() -> None:
    lost = OffsetMap(0, 0)
    lost.append(Run(0, 0, 5))
    lost.skip_unknown(50, 60)
    position = safe_position([SharedFlow("lost", lost, 0, 20, None), east(20, 20)], 60, 0)
    assert position == (SyncState.PARTIAL, 5, "lost", None)
    trimmed = OffsetMap(0, 0)
    trimmed.skip_unknown(50, 60)
    position = safe_position([SharedFlow("trimmed", trimmed, 0, 20, None), east(20, 20)], 60, 0)
    assert position == (SyncState.PENDING, None, "trimmed", None)
    # At the edge of the hole: no further than what is known.
    position = safe_position([SharedFlow("lost", lost, 0, 5, None), east(20, 20)], 60, 0)
    assert position.target_offset == 5
    older = OffsetMap(10, 10, has_older_copies=True)
    position = safe_position([SharedFlow("older", older, 0, 3, None)], 60, 0)
    assert (position.state, position.target_offset) == (SyncState.INEXACT, None)


def test_what_is_read_again_is_counted_up_to_a_limit() -> None:
    runs = [Run(at, 1 + at * 2, 1) for at in range(REREAD_RUNS_MAX + 1)]
    behind = flow("behind", Run(0, 0, 1), committed=0)
    few = flow("few", *runs[:-1], committed=len(runs) - 1)
    many = flow("many", *runs, committed=len(runs))
    assert safe_position([behind, few], 1, 0).reread_records == REREAD_RUNS_MAX
    assert safe_position([behind, many], 1, 0).reread_records is None


def topic_of(*records: Opening | Block) -> MapTopic:
    topic = MapTopic()
    for record in records:
        topic.replay(*encode_record(record))
    return topic


def opening(epoch: int, source_offset: int, target_offset: int) -> Opening:
    return Opening(
        flow=FLOW, producer_id=1, producer_epoch=epoch, nonce=epoch + 1, target_topic="t",
        source_offset=source_offset, target_offset=target_offset, opened_at_ms=0, worker_id="w",
    )  # fmt: skip


def block(epoch: int, nonce: int, *runs: Run) -> Block:
    return Block(
        flow=FLOW, producer_id=1, producer_epoch=epoch, nonce=nonce, target_topic="t",
        source_start=runs[0].source_offset, target_start=runs[0].target_offset,
        source_next=runs[-1].source_next, next_sequence=0, runs=runs,
    )  # fmt: skip


def test_a_followed_map_equals_a_rebuilt_one() -> None:
    """A block grows, blocks are passed over between two looks, the source is truncated."""
    topic = topic_of(opening(0, 0, 0))
    growing = FollowedMap()
    for record in (
        None,
        block(0, 1, Run(0, 0, 5)),
        block(0, 1, Run(0, 0, 5), Run(5, 7, 5)),
        block(0, 2, Run(10, 20, 5)),
        block(0, 4, Run(40, 50, 5)),
        block(0, 3, Run(15, 25, 25)),
        opening(1, 12, 60),
        block(1, 5, Run(12, 60, 3)),
    ):
        if record is not None:
            topic.replay(*encode_record(record))
        found, wanted = growing.follow(topic, FLOW), topic.build_offset_map(FLOW)
        assert found is not None
        assert wanted is not None
        if record is None or record.nonce != 3:
            assert list(found.runs()) == list(wanted.runs())
        assert found.source_next == wanted.source_next
    assert FollowedMap().follow(MapTopic(), FLOW) is None
