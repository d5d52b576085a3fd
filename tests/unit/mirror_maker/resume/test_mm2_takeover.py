"""How much of the source the target ends with, and MirrorMaker 2's noted offsets."""

from __future__ import annotations

from random import Random

import pytest

from mirror_maker.formats.mm2 import SourcePosition, decode_source_position
from mirror_maker.resume.mm2_takeover import matching_lengths


@pytest.mark.parametrize(
    ("following", "tail", "noted", "lengths"),
    [
        ([5, 6, 7], [3, 4], 4, [0]),  # a clean stop
        ([5, 6, 7], [3, 4, 5, 6], 4, [2]),  # killed: two more than were noted
        ([5, 6, 7], [4, 5, 6, 7], 4, [3]),
        ([5, 6, 7], [4, 5, 6, 4, 5], None, [0, 1]),  # the noted record is gone: both are possible
        ([5, 6, 7], [3, 4, 5, 6, 5], 6, [1]),
        (
            [5, 6, 7],
            [4, 5, 6, 5, 6, 7],
            4,
            [],
        ),  # restarted and killed again: no match
        ([], [3, 4], 4, [0]),
        ([1, 1, 1], [0, 1, 1], 1, [0, 1]),  # equal records: nobody can tell
        ([1, 1, 2], [1, 1, 1, 1], 1, [0, 1, 2]),
        ([5, 6], [8, 9], 4, []),  # not the source's copies
    ],
)
def test_lengths(
    following: list[int], tail: list[int], noted: int | None, lengths: list[int]
) -> None:
    assert matching_lengths(following, tail, noted, is_whole=False) == lengths


def test_a_target_that_holds_nothing_before_must_not_lack_the_noted_record() -> None:
    assert matching_lengths([5, 6], [5, 6], 4, is_whole=False) == [2]
    assert matching_lengths([5, 6], [5, 6], 4, is_whole=True) == []
    assert matching_lengths([5, 6], [5, 6], None, is_whole=True) == [2]
    assert matching_lengths([5, 6], [9, 5, 6], None, is_whole=True) == []


@pytest.mark.parametrize("seed", range(50))
def test_exactly_the_lengths_that_fit_by_definition(seed: int) -> None:
    random = Random(seed)
    following = [random.randint(0, 2) for _ in range(random.randint(0, 12))]
    tail = [random.randint(0, 2) for _ in range(random.randint(0, 8))]
    tail += following[: random.randint(0, len(following))]
    noted = random.choice((None, 0, 1))
    fitting = [
        k
        for k in range(min(len(following), len(tail)) + 1)
        if tail[len(tail) - k :] == following[:k]
        and (noted is None or len(tail) == k or tail[-k - 1] == noted)
    ]
    assert matching_lengths(following, tail, noted, is_whole=False) == fitting


def test_connect_offsets() -> None:
    key = b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]'
    strimzi = key.replace(b"Mirror", b"A->B.Mirror")
    assert decode_source_position(key, b'{"offset":123}') == SourcePosition("A", "t", 0, 123)
    assert decode_source_position(strimzi, b'{"offset":5}') == SourcePosition("A", "t", 0, 5)
    assert decode_source_position(key, None) == SourcePosition("A", "t", 0, None)
    assert decode_source_position(b'["MirrorHeartbeatConnector",{}]', b"{}") is None
    for other in (None, b"", b"null", b"[1]", b'["MirrorSourceConnector",{}]'):
        assert decode_source_position(other, b'{"offset":1}') is None
