"""What a client wrote again under its next epoch is recognised, and no other copy."""

from __future__ import annotations

import pytest

from tests.nemesis.checkers.resent import Written, check_log, superseded


def written(*runs: tuple[int, str], producer_id: int = 7, first_offset: int = 0) -> list[Written]:
    """A log of batches of one record: (epoch, values of it from sequence 0 on)."""
    records: list[Written] = []
    for epoch, values in runs:
        for sequence, value in enumerate(values):
            offset = first_offset + len(records)
            records.append(Written(offset, value, producer_id, epoch, sequence, offset))
    return records


def test_the_last_of_one_epoch_may_be_the_first_of_the_next() -> None:
    log = {0: written((0, "abcd"), (1, "cdef")), 1: written((0, "gh"), (1, "ij"))}
    assert superseded(log) == {(0, 2), (0, 3)}
    assert not check_log(log).anomalies
    assert check_log(log).checked == {"sequences": 12}
    assert check_log(log).allowed == {"sent-again": 2}


def test_an_epoch_may_be_raised_again_before_an_answer() -> None:
    log = {0: written((0, "ab"), (1, "b"), (3, "bc"))}
    assert superseded(log) == {(0, 1), (0, 2)}


def test_other_producers_in_between_change_nothing() -> None:
    mine = written((0, "ab"), (1, "bc"))
    other = written((0, "x"), producer_id=8, first_offset=4)
    log = {0: [mine[0], mine[1], *other, *mine[2:]]}
    assert superseded(log) == {(0, 1)}
    assert not check_log(log).anomalies


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([*written((0, "ab")), Written(2, "b", 7, 0, 2, 2)], id="the same epoch"),
        pytest.param(
            [*written((0, "ab")), *written((0, "b"), producer_id=8, first_offset=2)],
            id="another producer id",
        ),
        pytest.param(written((1, "ab"), (0, "b")), id="a lower epoch"),
        pytest.param(written((0, "abc"), (1, "bd")), id="not the end of the epoch before"),
        pytest.param(written((0, "abc"), (1, "xbc")), id="not the beginning of the next"),
        pytest.param(written((0, "abc"), (1, "bac")), id="another order"),
        pytest.param(written((0, "abcdef"), (1, "abcdef")), id="more than may be in flight"),
        pytest.param(
            [
                record._replace(producer_id=-1, epoch=-1, sequence=-1)
                for record in written((0, "aa"))
            ],
            id="not idempotent",
        ),
    ],
)
def test_other_copies_are_not_excused(records: list[Written]) -> None:
    assert not superseded({0: records})


def test_as_many_batches_as_may_be_in_flight_are_recognised() -> None:
    in_batches = [
        record._replace(batch_offset=record.offset // 2 * 2)
        for record in written((0, "abcdefghij"))
    ]
    log = {0: [*in_batches, *written((1, "abcdefghijk"), first_offset=10)]}
    assert superseded(log) == {(0, offset) for offset in range(10)}


@pytest.mark.parametrize(
    ("kind", "records"),
    [
        ("sequence", [*written((0, "ab")), Written(2, "b", 7, 0, 1, 2)]),
        ("sequence", [*written((0, "ab")), Written(2, "d", 7, 0, 3, 2)]),
        ("sequence", [*written((0, "ab")), Written(2, "c", 7, 1, 2, 2)]),
        ("sequence", [Written(0, "b", 7, 0, 1, 0)]),
        ("epoch-back", written((1, "ab"), (0, "c"))),
    ],
)
def test_a_planted_anomaly_is_noticed(kind: str, records: list[Written]) -> None:
    assert set(check_log({0: records}).anomalies) == {kind}
