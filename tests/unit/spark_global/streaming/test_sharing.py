"""Partitions share the limit of a batch: never more, nobody starves, the small come first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from local_cluster.client.model import TopicPartition
from spark_global.streaming.sharing import share_bytes, share_limit, unread


def at(partition: int) -> TopicPartition:
    return TopicPartition("t", partition)


BACKLOGS = st.dictionaries(
    st.integers(0, 20).map(at), st.integers(0, 10_000), min_size=1, max_size=20
)


@given(BACKLOGS, st.integers(1, 20_000), st.integers(0, 10**12))
def test_the_limit_is_used_up_and_shared_fairly(
    backlogs: dict[TopicPartition, int], limit: int, turn: int
) -> None:
    shares = share_limit(backlogs, limit, turn)
    assert sum(shares.values()) == min(limit, sum(backlogs.values()))
    assert all(0 <= share <= backlogs[each] for each, share in shares.items())
    # Whoever gets less than another one gets all that it needs, up to the division's remainder.
    most = max(shares.values(), default=0)
    for each, share in shares.items():
        assert share == backlogs[each] or share >= most - 1


@given(st.integers(1, 12), st.integers(1, 12))
def test_every_partition_has_its_turn(partitions: int, limit: int) -> None:
    backlogs = {at(index): 100 for index in range(partitions)}
    position, served = 0, set()
    for _ in range(partitions):
        shares = share_limit(backlogs, limit, position)
        position += sum(shares.values())
        served |= {each for each, share in shares.items() if share}
    assert served == set(backlogs)


def test_a_partition_that_is_up_to_date_stays_so() -> None:
    assert share_limit({at(0): 1_000_000, at(1): 3, at(2): 500}, 100, 0) == {
        at(0): 49,
        at(1): 3,
        at(2): 48,
    }


@given(BACKLOGS, st.integers(1, 100_000), st.floats(0.5, 5_000), st.integers(0, 10**12))
def test_bytes_are_shared_as_offsets_and_the_stream_always_goes_on(
    backlogs: dict[TopicPartition, int], bytes_max: int, size: float, turn: int
) -> None:
    sizes = dict.fromkeys(backlogs, size)
    granted = share_bytes(backlogs, sizes, bytes_max, turn)
    offsets = sum(granted.values())
    assert all(0 <= n <= backlogs[each] for each, n in granted.items())
    assert (offsets >= 1) == (sum(backlogs.values()) >= 1)
    assert offsets == 1 or offsets * size <= bytes_max + len(backlogs) * size


def test_a_position_never_goes_back_to_an_end() -> None:
    assert unread({at(0): 5, at(1): 9, at(2): 1}, {at(0): 7, at(1): 4, at(3): 8}) == {
        at(0): 2,
        at(1): 0,
    }
