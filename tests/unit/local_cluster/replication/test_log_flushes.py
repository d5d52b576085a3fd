"""Which flusher gets a replica's requests, and when waits for the disk end."""

from __future__ import annotations

import pytest

from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.log.samples import flush
from tests.unit.local_cluster.replication.test_partition import (
    Flusher,
    append,
    flush_now,
    leading,
    new_log,
)


async def test_a_wait_ends_when_everything_is_flushed() -> None:
    partition = leading(Flusher())
    assert partition.flushes.wait() is None
    append(partition, 1)
    wait = partition.flushes.wait()
    assert wait is not None
    append(partition, 1)
    partition.flushes.flushed()
    assert not wait.done()
    flush_now(partition)
    assert wait.done()
    assert wait.exception() is None


async def test_a_wait_fails_with_the_disk_and_ends_with_the_epoch() -> None:
    partition = leading(Flusher())
    append(partition, 1)
    failing, ending = partition.flushes.wait(), None
    assert failing is not None
    partition.flushes.fail(ErrorCode.kafka_storage_error)
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        failing.result()
    ending = partition.flushes.wait()
    assert ending is not None
    partition.resign(1)
    assert ending.result() is None


async def test_while_paused_nothing_is_requested() -> None:
    flusher = Flusher()
    partition = leading(flusher)
    partition.flushes.pause()
    append(partition, 1)
    assert flusher.requested == []
    assert not partition.flushes.is_flushed_by(flusher)
    partition.flushes.resume()
    assert flusher.requested == [partition.flushes]
    assert partition.flushes.is_flushed_by(flusher)


async def test_after_a_relocation_the_other_flusher_is_asked() -> None:
    before, after = Flusher(), Flusher()
    partition = leading(before)
    append(partition, 1)
    copy = new_log()
    append(leading(None, copy), 1)
    flush(copy)
    partition.flushes.pause()
    partition.relocate(copy, after)
    partition.flushes.resume()
    assert partition.log is partition.flushes.log is copy
    assert partition.high_watermark == 1, "the copy is flushed"
    append(partition, 1)
    assert (len(before.requested), after.requested) == (1, [partition.flushes])
