"""The copying state of one flow: window, probation, positions, map."""

from __future__ import annotations

import uuid

import pytest

from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.copy.open_block import RUNS_PER_BLOCK, OpenBlock
from mirror_maker.copy.replicator import PROBATION_BATCHES, Outgoing, PartitionReplicator
from mirror_maker.formats import FlowKey, OffsetMap, Run
from mirror_maker.model import UNACKED_BATCHES_MAX, UncopyableBatchError

FLOW = FlowKey("t", 0, uuid.UUID(int=1), uuid.UUID(int=2))


def open_block(**changes: object) -> OpenBlock:
    fields: dict[str, object] = {
        "flow": FLOW, "target_topic": "a.t", "producer_id": 7, "producer_epoch": 0, "nonce": 1,
        "source_start": 0, "target_start": 0, "next_sequence": 0,
    }  # fmt: skip
    return OpenBlock(**{**fields, **changes})  # type: ignore[arg-type]


def replicator(pending_bytes_max: int = 1_000_000) -> PartitionReplicator:
    return PartitionReplicator(
        producer_id=7, producer_epoch=0, source_next=0, next_sequence=0, block=open_block(),
        offset_map=OffsetMap(0, 0), pending_bytes_max=pending_bytes_max, coalesces=False,
    )  # fmt: skip


def log(start: int, batches: int, size: int = 2) -> memoryview:
    return memoryview(
        b"".join(
            bytes(encode_batch([NewRecord(0, b"k", b"v")] * size, base_offset=start + size * i))
            for i in range(batches)
        )
    )


def accept(flow: PartitionReplicator, fetched: memoryview) -> None:
    """Accept a fetch response, and release it."""
    flow.accept(fetched, ())
    flow.release(flow.accepted)


def take(flow: PartitionReplicator) -> Outgoing:
    outgoing = flow.take()
    assert outgoing is not None
    return outgoing


def pass_probation(flow: PartitionReplicator) -> int:
    """Copy the probation's batches of two records; return the next source offset."""
    accept(flow, log(flow.fetch_position, PROBATION_BATCHES))
    for index in range(PROBATION_BATCHES):
        flow.acknowledge(take(flow), 2 * index)
    return flow.fetch_position


def test_one_batch_at_a_time_on_probation_then_five() -> None:
    flow = replicator()
    accept(flow, log(0, 20))
    for index in range(PROBATION_BATCHES):
        outgoing = take(flow)
        assert flow.take() is None
        flow.acknowledge(outgoing, 2 * index)
    in_flight = [take(flow) for _ in range(UNACKED_BATCHES_MAX)]
    assert flow.take() is None
    assert [outgoing.sequence for outgoing in in_flight] == [10, 12, 14, 16, 18]
    assert h.read_header(in_flight[1].data).base_sequence == 12
    flow.acknowledge(in_flight[0], 10)
    assert take(flow).sequence == 20


def test_the_source_position_is_the_oldest_unacknowledged() -> None:
    flow = replicator()
    start = pass_probation(flow)
    accept(flow, log(start, 3))
    first, second = take(flow), take(flow)
    assert (flow.source_next, flow.fetch_position) == (start, start + 6)
    flow.acknowledge(first, 10)
    assert flow.source_next == start + 2
    flow.acknowledge(second, 12)
    assert flow.source_next == start + 4


def test_acknowledged_out_of_order_is_a_defect() -> None:
    flow = replicator()
    accept(flow, log(pass_probation(flow), 2))
    take(flow)
    with pytest.raises(AssertionError):
        flow.acknowledge(take(flow), 12)


def test_room_is_counted_in_bytes_until_acknowledged() -> None:
    flow = replicator(pending_bytes_max=100)
    rooms = [flow.wants_fetch]
    accept(flow, log(0, 2))
    rooms.append(flow.wants_fetch)
    flow.acknowledge(take(flow), 0)
    flow.acknowledge(take(flow), 2)
    rooms.append(flow.wants_fetch)
    assert (rooms, flow.pending_bytes) == ([True, False, True], 0)


def test_the_map_advances_over_batches_left_out() -> None:
    flow = replicator()
    control = encode_batch(
        [NewRecord(0, b"\0\0\0\1", b"")], attributes=h.CONTROL_BIT | h.TRANSACTIONAL_BIT
    )
    assert flow.accept(memoryview(control), ())
    assert not flow.block.is_dirty, "it may be of another topic"
    flow.release(flow.accepted)
    assert (flow.source_next, flow.block.source_next, flow.block.is_dirty) == (1, 1, True)


def test_batches_before_an_uncopyable_one_are_accepted() -> None:
    flow = replicator()
    spoiled = bytearray(log(0, 2))
    spoiled[-1] ^= 1
    with pytest.raises(UncopyableBatchError):
        flow.accept(memoryview(spoiled), ())
    flow.release(flow.accepted)
    assert (take(flow).prepared.source_first, flow.fetch_position) == (0, 2)
    assert flow.has_pending


def test_a_block_takes_over_a_small_predecessor() -> None:
    first = open_block()
    first.append([Run(0, 0, 5)], 5, 5)
    (predecessor,), _ = first.take_records()
    second = open_block(
        nonce=2, source_start=5, target_start=5, next_sequence=5, predecessor=predecessor
    )
    assert not second.is_dirty
    second.append([Run(5, 5, 1)], 6, 6)
    (block,), deleted = second.take_records()
    assert block.runs == (Run(0, 0, 6),)
    assert (block.source_start, block.source_next, block.next_sequence) == (0, 6, 6)
    assert len(deleted) == 1
    second.advance(9)
    (block,), deleted = second.take_records()
    assert (block.source_next, deleted) == (9, [])


def test_a_full_block_is_closed_and_both_are_written() -> None:
    block = open_block()
    for index in range(RUNS_PER_BLOCK + 1):
        block.append([Run(2 * index, index, 1)], 2 * index + 1, index + 1)
    blocks, _ = block.take_records()
    assert [len(each.runs) for each in blocks] == [RUNS_PER_BLOCK, 1]
    assert blocks[0].source_next == blocks[1].source_start
    assert blocks[0].target_next == blocks[1].target_start


def test_a_failed_write_is_repeated() -> None:
    block = open_block()
    for index in range(RUNS_PER_BLOCK + 1):
        block.append([Run(2 * index, index, 1)], 2 * index + 1, index + 1)
    blocks, keys = block.take_records()
    block.put_back(blocks, keys)
    assert block.is_dirty
    assert block.take_records() == (blocks, keys)


def test_held_batches_are_not_taken() -> None:
    flow = replicator()
    flow.accept(log(0, 2), ())
    mark = flow.accepted
    flow.accept(log(4, 1), ())
    assert flow.take() is None
    assert (flow.source_next, flow.has_pending) == (0, True)
    flow.release(mark)
    flow.acknowledge(take(flow), 0)
    flow.acknowledge(take(flow), 2)
    assert flow.take() is None
    assert (flow.source_next, flow.fetch_position) == (4, 6)
    flow.release(flow.accepted)
    assert take(flow).prepared.source_first == 4
