"""The map of a source with many transactions: its size, and its trimming."""

from __future__ import annotations

import uuid

from mirror_maker.copy import open_block
from mirror_maker.copy.open_block import OpenBlock
from mirror_maker.formats import (
    Block,
    FlowKey,
    MapTopic,
    OffsetMap,
    Opening,
    Run,
    TranslationState,
    encode_record,
)

FLOW = FlowKey("t", 0, uuid.UUID(int=1), uuid.UUID(int=2))
RECORDS = 20
"""Of one transaction; behind it lies its marker, which is not copied."""
TRANSACTIONS = 36_000
"""Of an hour, at ten in a second."""
HOURS = 24 * 30


def new_block() -> OpenBlock:
    return OpenBlock(
        flow=FLOW, target_topic="a.t", producer_id=4_000, producer_epoch=0, nonce=1,
        source_start=0, target_start=0, next_sequence=0,
    )  # fmt: skip


def transaction(number: int) -> Run:
    return Run(number * (RECORDS + 1), number * RECORDS, RECORDS)


def test_ten_transactions_a_second_cost_little_for_a_month() -> None:
    block = new_block()
    size_bytes = 0
    for number in range(TRANSACTIONS):
        run = transaction(number)
        block.append([run], run.source_next + 1, (number + 1) * RECORDS)
    blocks, _ = block.take_records()
    for each in blocks:
        key, value = encode_record(each)
        size_bytes += len(key) + len(value)
    assert sum(len(each.runs) for each in blocks) == TRANSACTIONS
    # 3.0 bytes a transaction: 79 MB a month in the topic, if the target keeps a month.
    assert size_bytes / TRANSACTIONS < 3.1
    assert size_bytes * HOURS < 82_000_000


def test_the_map_is_trimmed_with_the_target() -> None:
    topic = MapTopic()
    opening = Opening(
        flow=FLOW, producer_id=4_000, producer_epoch=0, nonce=1, target_topic="a.t",
        source_offset=0, target_offset=0, opened_at_ms=1, worker_id="w",
    )  # fmt: skip
    topic.replay(*encode_record(opening))
    block = new_block()
    live = OffsetMap(0, 0)
    count = 5 * open_block.RUNS_PER_BLOCK + 10
    for number in range(count):
        run = transaction(number)
        block.append([run], run.source_next + 1, (number + 1) * RECORDS)
        live.append(run)
        live.advance(run.source_next + 1)
    _replay(topic, *block.take_records())
    whole = topic.build_offset_map(FLOW)
    assert whole is not None
    log_start = 3 * open_block.RUNS_PER_BLOCK * RECORDS + 7
    block.trim(log_start)
    live.trim(log_start)
    assert block.is_dirty
    blocks, keys = block.take_records()
    assert len(keys) == 3
    _replay(topic, blocks, keys)
    trimmed = topic.build_offset_map(FLOW)
    assert trimmed is not None
    for offset in range(0, whole.source_next + 1, 13):
        exact = whole.translate(offset)
        target_offset = exact.target_offset
        assert target_offset is not None
        for found in (trimmed.translate(offset), live.translate(offset)):
            if target_offset >= log_start:
                assert found == exact
            else:
                assert found == exact or found.state is TranslationState.PENDING
    assert live.translate(5).state is trimmed.translate(5).state is TranslationState.PENDING
    assert sum(1 for _ in live.runs()) == count - 3 * open_block.RUNS_PER_BLOCK


def test_a_map_that_is_trimmed_grows_on() -> None:
    live = OffsetMap(0, 0)
    for number in range(100):
        live.append(transaction(number))
        live.trim(max(0, (number - 10) * RECORDS))
    assert sum(1 for _ in live.runs()) <= 12
    assert live.translate(transaction(99).source_offset + 3).target_offset == 99 * RECORDS + 3
    assert live.source_of(99 * RECORDS + 3) == transaction(99).source_offset + 3
    live.trim(1 << 60)
    assert live.target_next == 100 * RECORDS, "the end is never forgotten"


def _replay(topic: MapTopic, blocks: list[Block], keys: list[bytes]) -> None:
    for each in blocks:
        topic.replay(*encode_record(each))
    for key in keys:
        topic.replay(key, None)
