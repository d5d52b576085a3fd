"""Which flow is given which record of the receipts topic."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_maker.audit.receipt_offsets import ReceiptOffsets


def everyone(flow_id: int) -> bool:
    return True


def read(offsets: ReceiptOffsets, position: int, records: dict[int, int], end: int) -> list[int]:
    """Give the records from a position to an end; return the offsets of those that are due."""
    offsets.begin(position)
    given = []
    for offset in range(position, end):
        if offset in records and offsets.is_due(records[offset], offset):
            offsets.give(records[offset], offset)
            given.append(offset)
    offsets.reach(end)
    return given


def test_flows_that_were_taken_up_elsewhere_meet_at_one_level() -> None:
    offsets = ReceiptOffsets()
    offsets.add(1, 5)
    offsets.add(2, 20)
    assert offsets.next(2, everyone) == 5
    assert read(offsets, 5, {6: 1, 10: 2, 25: 2}, 30) == [6, 25]
    assert offsets.of(1) == offsets.of(2) == offsets.next(2, everyone) == 30


def test_a_flow_without_room_gets_the_refused_record_next() -> None:
    offsets = ReceiptOffsets()
    offsets.add(1, 0)
    offsets.add(2, 0)
    offsets.begin(0)
    assert offsets.is_due(1, 3)
    offsets.refuse(1, 3)
    assert not offsets.is_due(1, 4)
    offsets.reach(10)
    # The other one reads on, and what it reads would leave a gap in the first.
    assert offsets.next(2, lambda flow_id: flow_id != 1) == 10
    offsets.begin(10)
    assert not offsets.is_due(1, 12)
    offsets.reach(20)
    assert offsets.of(1) == offsets.next(2, everyone) == 3
    assert read(offsets, 3, {3: 1, 4: 1, 12: 1, 15: 2}, 20) == [3, 4, 12]


def test_nothing_is_read_while_no_flow_has_room() -> None:
    offsets = ReceiptOffsets()
    offsets.add(1, 0)
    offsets.begin(0)
    offsets.refuse(1, 2)
    offsets.reach(5)
    assert offsets.next(1, lambda flow_id: False) is None
    assert offsets.next(1, everyone) == 2


def test_what_was_given_before_an_error_is_not_given_again() -> None:
    offsets = ReceiptOffsets()
    offsets.add(1, 0)
    offsets.begin(0)
    offsets.give(1, 0)  # and the next batch fails its CRC
    assert read(offsets, 0, {0: 1, 1: 1}, 2) == [1]


@pytest.mark.parametrize(("start", "end"), [(15, 40), (0, 8)], ids=["expired", "truncated"])
def test_flows_outside_of_the_topic_begin_at_its_start(start: int, end: int) -> None:
    offsets = ReceiptOffsets()
    offsets.add(1, 0)
    read(offsets, 0, {}, 10)
    offsets.add(2, 30)
    offsets.lose(start, end)
    assert offsets.of(1) == start
    assert offsets.of(2) == (30 if end == 40 else start)


def test_a_topic_that_was_created_again_is_read_from_its_start() -> None:
    offsets = ReceiptOffsets()
    offsets.add(1, 7)
    offsets.restart(0)
    assert offsets.of(1) == offsets.next(1, everyone) == 0


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 1 << 32), flows=st.integers(1, 5), end=st.integers(1, 60))
def test_every_flow_takes_each_of_its_records_once_in_order(
    seed: int, flows: int, end: int
) -> None:
    random = Random(seed)
    records = {offset: random.randrange(flows) for offset in range(end)}
    starts = [random.randrange(end) for _ in range(flows)]
    offsets = ReceiptOffsets()
    for flow_id, start in enumerate(starts):
        offsets.add(flow_id, start)
    took: list[list[int]] = [[] for _ in range(flows)]
    room = [0] * flows
    rounds = 0
    while any(offsets.of(flow_id) < end for flow_id in range(flows)):
        rounds += 1
        # From some round on all have room: before, some wait for long.
        room[:] = [100 if rounds > 40 else random.choice((0, 0, 1, 3)) for _ in range(flows)]
        position = offsets.next(flows, lambda flow_id: room[flow_id] > 0)
        if position is None:
            continue
        next_offset = min(end, position + random.randint(1, 20))
        offsets.begin(position)
        for offset in range(position, next_offset):
            flow_id = records[offset]
            if not offsets.is_due(flow_id, offset):
                continue
            if room[flow_id] == 0:
                offsets.refuse(flow_id, offset)
                continue
            room[flow_id] -= 1
            took[flow_id].append(offset)
            offsets.give(flow_id, offset)
        if next_offset > position:
            offsets.reach(next_offset)
    for flow_id, start in enumerate(starts):
        assert took[flow_id] == [
            offset for offset in range(start, end) if records[offset] == flow_id
        ]
