"""A Produce request has one batch for each partition, and each batch has its answer."""

from __future__ import annotations

import pytest

from local_cluster.client.client import match_answers
from local_cluster.client.model import TopicPartition
from local_cluster.client.produce_batches import ProduceBatches
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.produce import (
    PartitionProduceResponse,
    PartitionRecords,
    ProduceRequest,
    encode_request,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def answered(at: TopicPartition, base_offset: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(at.topic, at.partition, ErrorCode.none, base_offset)


def test_a_second_batch_for_a_partition_is_refused() -> None:
    batches = ProduceBatches((T0, b"first"), (T1, b"other"))
    with pytest.raises(ValueError, match="one batch for t-0"):
        batches.add(T0, b"second")
    assert dict(batches.items()) == {T0: b"first", T1: b"other"}


@pytest.mark.parametrize("version", [3, 9, 12])
def test_the_codec_refuses_a_partition_that_stands_twice_in_a_request(version: int) -> None:
    twice = [PartitionRecords("t", 0, memoryview(b"x")), PartitionRecords("t", 0, memoryview(b"y"))]
    with pytest.raises(ValueError, match="two batches for the same partition"):
        encode_request(version, ProduceRequest(None, -1, 1_000, twice))


def test_each_batch_is_matched_with_its_own_answer() -> None:
    batches = ProduceBatches((T0, b"first"), (T1, b"other"))
    answers = match_answers(batches, [answered(T1, 7), answered(T0, 3)])
    assert {at: answer.base_offset for at, answer in answers.items()} == {T0: 3, T1: 7}


@pytest.mark.parametrize(
    "answers",
    [
        [answered(T0, 3)],
        [answered(T0, 3), answered(T0, 7)],
        [answered(T0, 3), answered(TopicPartition("t", 2), 7)],
        [answered(T0, 3), answered(T1, 7), answered(T1, 8)],
    ],
    ids=["one left out", "one twice", "another", "one too many"],
)
def test_an_answer_that_does_not_fit_the_request_is_an_error(
    answers: list[PartitionProduceResponse],
) -> None:
    batches = ProduceBatches((T0, b"first"), (T1, b"other"))
    with pytest.raises(KafkaError) as raised:
        match_answers(batches, answers)
    assert raised.value.code is ErrorCode.unknown_server_error
