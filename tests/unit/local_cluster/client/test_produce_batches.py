"""A Produce request has one batch for each partition, and each batch has one result."""

from __future__ import annotations

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.client.produce_batches import ProduceBatches, match_results
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.produce import (
    PartitionProduceResponse,
    PartitionRecords,
    ProduceRequest,
    encode_request,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def result(at: TopicPartition, base_offset: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(at.topic, at.partition, ErrorCode.none, base_offset)


def test_a_second_batch_for_a_partition_is_refused() -> None:
    batches = ProduceBatches((T0, b"first"), (T1, b"other"))
    with pytest.raises(ValueError, match="one batch for t-0"):
        batches.add(T0, b"second")
    assert dict(batches.items()) == {T0: b"first", T1: b"other"}


@pytest.mark.parametrize("version", [3, 9, 12])
def test_the_codec_refuses_two_batches_for_a_partition(version: int) -> None:
    twice = [PartitionRecords("t", 0, memoryview(b"x")), PartitionRecords("t", 0, memoryview(b"y"))]
    with pytest.raises(ValueError, match="two batches for the same partition"):
        encode_request(version, ProduceRequest(None, -1, 1_000, twice))


def test_each_batch_is_matched_with_its_own_result() -> None:
    batches = ProduceBatches((T0, b"first"), (T1, b"other"))
    results = match_results(batches, [result(T1, 7), result(T0, 3)])
    assert {at: each.base_offset for at, each in results.items()} == {T0: 3, T1: 7}


@pytest.mark.parametrize(
    "results",
    [
        [result(T0, 3)],
        [result(T0, 3), result(T0, 7)],
        [result(T0, 3), result(TopicPartition("t", 2), 7)],
        [result(T0, 3), result(T1, 7), result(T1, 8)],
    ],
    ids=["one left out", "one twice", "another", "one too many"],
)
def test_results_that_do_not_match_the_request_are_an_error(
    results: list[PartitionProduceResponse],
) -> None:
    batches = ProduceBatches((T0, b"first"), (T1, b"other"))
    with pytest.raises(KafkaError) as raised:
        match_results(batches, results)
    assert raised.value.code is ErrorCode.unknown_server_error
