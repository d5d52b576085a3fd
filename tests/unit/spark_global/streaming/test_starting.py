"""Given offsets lie inside of their logs, or are refused with the partition's name."""

from __future__ import annotations

import pytest

from local_cluster.client.model import TopicPartition
from spark_global.streaming.starting import given_offsets

A, B = TopicPartition("jfk.a", 0), TopicPartition("jfk.a", 1)
STARTS, ENDS = {A: 5, B: 0}, {A: 9, B: 4}


@pytest.mark.parametrize(
    ("given", "offsets"),
    [
        ({}, {A: 5, B: 0}),
        ({A: 7}, {A: 7, B: 0}),
        ({A: -2, B: -1}, {A: 5, B: 4}),
        ({A: 9}, {A: 9, B: 0}),
    ],
)
def test_given_offsets(
    given: dict[TopicPartition, int], offsets: dict[TopicPartition, int]
) -> None:
    assert given_offsets(given, STARTS, ENDS) == offsets


def test_offsets_outside_of_the_log_are_refused() -> None:
    for offset in (4, 10, -3):
        with pytest.raises(ValueError, match=rf"jfk\.a-0 has the offsets \[5, 9\), not {offset}"):
            given_offsets({A: offset}, STARTS, ENDS)
    with pytest.raises(ValueError, match=r"jfk\.b-0 is none of the partitions to read"):
        given_offsets({TopicPartition("jfk.b", 0): 1}, STARTS, ENDS)
