"""Reading a topic by offsets: checks of fetched batches, and reads that end."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from local_cluster.client.model import FetchedPartition, FetchPosition, TopicPartition
from local_cluster.client.reader import fetched_batches, read_until
from local_cluster.records.batch import CorruptRecordError, NewRecord, encode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError

AT = TopicPartition("t", 0)


def batch(base_offset: int, *values: bytes) -> bytes:
    records = [NewRecord(0, None, value) for value in values]
    return bytes(encode_batch(records, base_offset=base_offset))


LOG = batch(0, b"a", b"b") + batch(2, b"c", b"d") + batch(4, b"e")


class Client:
    """A leader that returns at most one batch per fetch."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)
        self.asked: list[int] = []

    async def fetch(
        self,
        node_id: int,
        positions: Mapping[TopicPartition, FetchPosition],
        *,
        wait_ms_max: int = 500,
        partition_bytes_max: int = 1_048_576,
    ) -> dict[TopicPartition, FetchedPartition]:
        self.asked.append(positions[AT].offset)
        records = memoryview(self._answers.pop(0))
        return {AT: FetchedPartition(ErrorCode.none, 5, 5, 0, (), records)}


def test_batches_from_a_position_on() -> None:
    found = [
        (header.base_offset, [record.value for record in records])
        for header, records in fetched_batches(memoryview(LOG), 3)
    ]
    assert found == [(2, [b"d"]), (4, [b"e"])]


def test_a_damaged_batch_is_refused() -> None:
    damaged = bytearray(LOG)
    damaged[-1] ^= 1
    batches = fetched_batches(memoryview(damaged), 0)
    assert [header.base_offset for header, _ in (next(batches), next(batches))] == [0, 2]
    with pytest.raises(CorruptRecordError, match="the batch at offset 4 fails its CRC"):
        next(batches)


async def test_a_read_ends_at_its_end() -> None:
    client = Client(batch(0, b"a", b"b"), batch(2, b"c", b"d"))
    found = [header.base_offset async for header, _ in read_until(client, 0, AT, 0, 3)]
    assert (found, client.asked) == ([0, 2], [0, 2])
    assert [header async for header, _ in read_until(client, 0, AT, 3, 3)] == []


async def test_a_read_without_progress_fails() -> None:
    with pytest.raises(KafkaError, match="no progress at offset 0"):
        async for _ in read_until(Client(b""), 0, AT, 0, 3):
            pass
