"""Responses sent after their leader was deposed: its file holds other batches by then."""

from __future__ import annotations

import uuid
from pathlib import Path

from local_cluster.log.partition.partition_log import LogSlice, PartitionLog
from local_cluster.replication.follower.apply_response import Position, apply_response, position_of
from local_cluster.replication.partition import Partition
from local_cluster.wire.fetch import PartitionFetchResponse
from tests.unit.local_cluster.log.samples import NOW_MS, append, batch, create, read_all


def replica_of(log: PartitionLog, leader_epoch: int) -> Partition:
    replica = Partition(
        "t", 0, uuid.UUID(int=1), log, flusher=None, now_ms=lambda: NOW_MS, high_watermark=0
    )
    replica.resign(leader_epoch, 1)
    return replica


def read_from(leader: PartitionLog, offset: int) -> LogSlice:
    return leader.read(
        offset, bytes_max=1 << 20, offset_limit=leader.log_end_offset, at_least_one_batch=True
    )


def deliver(replica: Partition, position: Position, sent: LogSlice) -> None:
    """Send the slice now, with what the leader's file has there, and apply the response."""
    records = memoryview(bytearray(sent.read()))
    response = PartitionFetchResponse(
        "t", 0, 0, high_watermark=1, log_start_offset=0, records=records
    )
    apply_response(replica, position, response, now_ms=NOW_MS)


def test_batches_that_replaced_those_of_a_deposed_leader_are_not_appended(
    tmp_path: Path,
) -> None:
    """KAFKA-18723. Broker 1 leads, 2 follows it, 3 has less and leads next."""
    logs = [create(tmp_path / name) for name in "123"]
    first, second, third = logs
    append(first, batch(value=b"common"), epoch=1)
    second_replica, third_replica = replica_of(second, 1), replica_of(third, 1)
    for replica in (second_replica, third_replica):
        deliver(replica, position_of(replica), read_from(first, 0))
    append(first, batch(value=b"old--1"), epoch=1)
    deliver(second_replica, position_of(second_replica), read_from(first, 1))
    append(first, batch(value=b"old--2"), epoch=1)

    position, late = position_of(second_replica), read_from(first, 2)
    append(third, batch(value=b"new--1"), epoch=2)
    append(third, batch(value=b"new--2"), epoch=2)
    first.truncate_to(1, NOW_MS).run()
    first_replica = replica_of(first, 2)
    deliver(first_replica, position_of(first_replica), read_from(third, 1))
    assert read_all(first) == read_all(third)

    before = read_all(second)
    deliver(second_replica, position, late)
    assert read_all(second) == before
    for log in logs:
        log.close()


def test_a_former_leaders_own_batches_are_appended_up_to_the_next_epoch(
    tmp_path: Path,
) -> None:
    leader, follower = create(tmp_path / "1"), create(tmp_path / "2")
    for epoch in (1, 1, 2):
        append(leader, batch(value=b"%d" % epoch), epoch=epoch)
    replica = replica_of(follower, 1)
    deliver(replica, position_of(replica), read_from(leader, 0))
    assert follower.log_end_offset == 2
    replica.resign(2, 1)
    deliver(replica, position_of(replica), read_from(leader, 2))
    assert read_all(follower) == read_all(leader)
    leader.close()
    follower.close()
