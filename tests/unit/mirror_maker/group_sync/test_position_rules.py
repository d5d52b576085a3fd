"""Which positions of groups are committed on the target, and which are only reported."""

from __future__ import annotations

import pytest

from local_cluster.client.admin.group_offsets import CommittedOffset
from local_cluster.client.model import TopicPartition
from mirror_maker.formats import OffsetMap, Run
from mirror_maker.group_sync.position_rules import (
    FlowMap,
    SyncedPosition,
    SyncState,
    decide,
    translate_positions,
)

SOURCE = TopicPartition("t", 0)
TARGET = TopicPartition("a.t", 0)


def flow_map() -> OffsetMap:
    """Records 0..9 at 100..109, a hole at 10, records 11..19 at 110..118; copied up to 20."""
    offset_map = OffsetMap(0, 100)
    offset_map.append(Run(0, 100, 10))
    offset_map.append(Run(11, 110, 9))
    return offset_map


def translated(offset: int, metadata: str = "") -> SyncedPosition:
    positions = {SOURCE: CommittedOffset(offset, 5, metadata)}
    found = translate_positions("g", positions, {SOURCE: FlowMap(TARGET, flow_map())}.get)
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("source_offset", "target_offset", "state"),
    [
        (0, 100, SyncState.SYNCED),
        (7, 107, SyncState.SYNCED),
        (10, 110, SyncState.SYNCED),
        (11, 110, SyncState.SYNCED),
        (20, 119, SyncState.SYNCED),
        (21, 119, SyncState.CLAMPED),
        (5_000, 119, SyncState.CLAMPED),
    ],
)
def test_translation(source_offset: int, target_offset: int, state: SyncState) -> None:
    position = translated(source_offset)
    assert (position.target_offset, position.state) == (target_offset, state)


def test_a_trimmed_part_of_the_map_is_pending_and_not_committed() -> None:
    offset_map = OffsetMap(0, 0)
    offset_map.skip_unknown(50, 60)
    positions = {SOURCE: CommittedOffset(20, -1, "")}
    (position,) = translate_positions("g", positions, {SOURCE: FlowMap(TARGET, offset_map)}.get)
    assert (position.target_offset, position.state) == (None, SyncState.PENDING)
    assert decide(position, None, "", rewind=True) == (position, None)


def test_in_a_hole_of_the_map_a_group_gets_the_safe_place() -> None:
    offset_map = OffsetMap(0, 0)
    offset_map.append(Run(0, 0, 5))
    offset_map.skip_unknown(50, 60)
    positions = {SOURCE: CommittedOffset(20, -1, "m")}
    (position,) = translate_positions("g", positions, {SOURCE: FlowMap(TARGET, offset_map)}.get)
    assert (position.target_offset, position.state) == (5, SyncState.INEXACT)
    assert decide(position, None, "", rewind=False) == (position, CommittedOffset(5, -1, "m"))


def test_partitions_that_this_worker_does_not_copy_are_left_out() -> None:
    positions = {TopicPartition("other", 0): CommittedOffset(1, -1, "")}
    assert translate_positions("g", positions, {SOURCE: FlowMap(TARGET, flow_map())}.get) == []


@pytest.mark.parametrize("state", ["", "Empty", "Dead"])
def test_a_quiet_group_gets_its_position_with_metadata_and_no_epoch(state: str) -> None:
    position, commit = decide(translated(7, "m"), None, state, rewind=False)
    assert commit == CommittedOffset(107, -1, "m")
    assert position.state is SyncState.SYNCED


@pytest.mark.parametrize(
    "state",
    ["Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Unknown"],
)
def test_a_group_in_use_is_never_overwritten(state: str) -> None:
    position, commit = decide(translated(7), CommittedOffset(3, -1, ""), state, rewind=True)
    assert (position.state, commit) == (SyncState.ACTIVE, None)


def test_a_position_never_goes_back_without_rewind() -> None:
    there = CommittedOffset(115, -1, "")
    position, commit = decide(translated(7), there, "Empty", rewind=False)
    assert (position.state, commit) == (SyncState.AHEAD, None)
    position, commit = decide(translated(7), there, "Empty", rewind=True)
    assert (position.state, commit) == (SyncState.SYNCED, CommittedOffset(107, -1, ""))


def test_an_equal_position_is_not_committed_again() -> None:
    position, commit = decide(translated(7), CommittedOffset(107, 9, ""), "Empty", rewind=False)
    assert (position.state, commit) == (SyncState.SYNCED, None)
    clamped, commit = decide(translated(30), CommittedOffset(119, -1, ""), "", rewind=False)
    assert (clamped.state, commit) == (SyncState.CLAMPED, None)


def test_a_copy_of_several_origins_has_no_exact_position() -> None:
    at = TopicPartition("t", 0)
    flows = {at: FlowMap(at, OffsetMap(0, 0), is_shared=True)}
    (position,) = translate_positions("g", {at: CommittedOffset(0, -1, "")}, flows.get)
    assert (position.state, position.target_offset) == (SyncState.MIXED, None)
    assert decide(position, None, "", rewind=True) == (position, None)


@pytest.mark.parametrize("state", [SyncState.MERGED, SyncState.PARTIAL])
def test_a_place_among_several_origins_never_goes_back(state: SyncState) -> None:
    """It falls back while a source does not answer, which is no wish of the group."""
    placed = translated(7)._replace(state=state)
    there = CommittedOffset(115, -1, "")
    position, commit = decide(placed, there, "Empty", rewind=True)
    assert (position.state, commit) == (SyncState.AHEAD, None)
    position, commit = decide(placed, CommittedOffset(3, -1, ""), "Empty", rewind=False)
    assert (position.state, commit) == (state, CommittedOffset(107, -1, ""))
