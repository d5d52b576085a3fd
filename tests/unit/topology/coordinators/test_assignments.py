"""Assignments of classic groups, and lag."""

from __future__ import annotations

import pytest

from local_cluster.client.admin.group_offsets import CommittedOffset
from local_cluster.client.model import TopicPartition
from topology.coordinators.assignments import decode_assignment
from topology.coordinators.group_reading import lag_rows, with_seconds

# ConsumerProtocolAssignment.json: version 3, b with [1, 0], a with [2], no user data.
ASSIGNMENT = bytes.fromhex(
    "0003000000020001620000000200000001000000000001610000000100000002ffffffff"
)


def test_an_assignment() -> None:
    assert decode_assignment(ASSIGNMENT) == [("a", 2), ("b", 0), ("b", 1)]
    assert decode_assignment(b"") == []


@pytest.mark.parametrize("length", range(1, 30))
def test_other_bytes_are_no_assignment(length: int) -> None:
    assert decode_assignment(ASSIGNMENT[:length]) is None


def test_unknown_lag_is_not_zero() -> None:
    places = [TopicPartition("t", at) for at in range(4)]
    committed = {places[0]: 3, places[1]: 9, places[2]: 1}
    positions = {at: CommittedOffset(offset, -1, "") for at, offset in committed.items()}
    ends = {places[0]: 10, places[1]: 5, places[3]: 7}
    rows = lag_rows(places, positions, ends, {("t", 0): "c"})
    assert [row["lag"] for row in rows] == [7, 0, None, None]
    assert [row["client"] for row in rows] == ["c", None, None, None]
    with_age = with_seconds(rows, {places[0]: 4_000}, now_ms=9_500)
    assert [row["lag_seconds"] for row in with_age] == [5.5, 0.0, None, None]
    all_read = with_seconds(rows, {places[0]: None}, now_ms=9_500)
    assert all_read[0]["lag_seconds"] == 0.0
    assert with_seconds(rows, {}, now_ms=9_500)[0]["lag_seconds"] is None
