"""Buckets of durations, and quantiles interpolated from them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from local_cluster.counters.latency import (
    BUCKETS,
    LAST_BUCKET,
    bucket_bounds_ns,
    bucket_of,
    quantiles_ms,
)
from local_cluster.counters.requests import ApiMeter, RequestMeters


@given(st.integers(min_value=0, max_value=10**12))
def test_a_duration_lies_within_the_bounds_of_its_bucket(duration_ns: int) -> None:
    first_ns, next_ns = bucket_bounds_ns(bucket_of(duration_ns))
    assert first_ns <= duration_ns < next_ns
    assert next_ns - first_ns <= max(first_ns / 4, 1024)


def test_the_first_and_the_last_bucket_take_what_is_beyond() -> None:
    assert bucket_of(-5) == 0
    assert bucket_of(10**18) == LAST_BUCKET == BUCKETS - 1


@given(st.lists(st.integers(min_value=2**13, max_value=10**10), min_size=1, max_size=50))
def test_quantiles_are_near_the_durations(durations_ns: list[int]) -> None:
    counts = [0] * BUCKETS
    for each in durations_ns:
        counts[bucket_of(each)] += 1
    least, most = quantiles_ms(counts, (0.0, 1.0))
    assert most >= max(durations_ns) / 1e6 * 0.999
    assert most <= max(durations_ns) / 1e6 * 1.26
    assert least <= min(durations_ns) / 1e6


def test_quantiles_of_nothing_are_zero() -> None:
    assert quantiles_ms([0] * BUCKETS, (0.5, 0.99)) == [0.0, 0.0]


@given(
    st.lists(
        st.tuples(
            st.integers(min_value=0, max_value=3) | st.integers(min_value=0, max_value=10**10),
            st.integers(min_value=-10, max_value=10**10),
            st.integers(min_value=0, max_value=1) | st.integers(min_value=0, max_value=10**11),
        )
    )
)
def test_each_request_is_in_one_bucket_of_local_and_total(
    times_ns: list[tuple[int, int, int]],
) -> None:
    meter = ApiMeter(0, 9)
    expected_local, expected_total = [0] * BUCKETS, [0] * BUCKETS
    for queue_ns, local_ns, remote_ns in times_ns:
        if queue_ns or remote_ns:
            meter.answered_late(queue_ns, local_ns, remote_ns)
        else:
            meter.answered(local_ns)
        expected_local[bucket_of(local_ns)] += 1
        expected_total[bucket_of(queue_ns + local_ns + remote_ns)] += 1
    assert meter.requests == len(times_ns)
    assert meter.local == expected_local
    assert meter.total == expected_total
    assert sum(meter.queue) == sum(queue_ns > 0 for queue_ns, _, _ in times_ns)


def test_versions_have_meters_of_their_own() -> None:
    meters = RequestMeters()
    meters.of(0, 9).answered(5)
    meters.of(0, 10).waiting += 1
    meters.of(1, 9).waiting += 2
    assert meters.of(0, 9) is meters.of(0, 9)
    assert {(each.api_key, each.api_version, each.requests) for each in meters} == {
        (0, 9, 1),
        (0, 10, 0),
        (1, 9, 0),
    }
    assert meters.waiting(0) == 1
    assert meters.waiting(0, 1) == 3
