"""Tokens for partitions: what strict and permissive requests may do, and how long they wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.quotas.entity import USER, entity
from local_cluster.quotas.mutation_tokens import MutationCharge, MutationTokens
from local_cluster.wire.errors import ErrorCode, KafkaError


class Clients:
    """User a has a quota of partitions per second, and time stands still."""

    def __init__(self, rate: float) -> None:
        self.now_ms = 1_000
        self.tokens = MutationTokens(windows=10, window_ms=1_000)
        self.tokens.set_quotas({entity({USER: "a"}): {"controller_mutation_rate": rate}})

    def request(self, *, is_strict: bool, user: str = "a") -> MutationCharge:
        return self.tokens.charge(
            f"User:{user}", "x", is_strict=is_strict, now_ms=lambda: self.now_ms
        )


def test_a_burst_may_go_into_debt_and_then_nothing_is_allowed() -> None:
    clients = Clients(2)
    first = clients.request(is_strict=True)
    first.take(19)
    first.take(11)
    assert first.throttle_ms() == 0
    second = clients.request(is_strict=True)
    with pytest.raises(KafkaError) as refused:
        second.take(1)
    assert refused.value.code is ErrorCode.throttling_quota_exceeded
    assert second.throttle_ms() == 5_000
    clients.now_ms += 4_000
    assert second.throttle_ms() == 1_000
    clients.now_ms += 1_000
    clients.request(is_strict=True).take(1)


def test_an_older_request_is_allowed_and_waits() -> None:
    clients = Clients(2)
    request = clients.request(is_strict=False)
    request.take(20)
    assert request.throttle_ms() == 0
    request.take(10)
    assert request.throttle_ms() == 5_000
    request.take(10)
    assert request.throttle_ms() == 10_000


def test_who_has_no_quota_takes_nothing() -> None:
    clients = Clients(1)
    request = clients.request(is_strict=True, user="b")
    for _ in range(5):
        request.take(10**6)
    assert request.throttle_ms() == 0


@given(
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 50), st.booleans()), max_size=50),
    st.floats(0.1, 100),
)
def test_no_more_is_created_than_the_rate_allows_in_the_long_run(
    steps: list[tuple[int, int, bool]], rate: float
) -> None:
    clients = Clients(rate)
    began_ms, created = clients.now_ms, 0
    for pause_ms, partitions, is_strict in steps:
        clients.now_ms += pause_ms
        request = clients.request(is_strict=is_strict)
        try:
            request.take(partitions)
            created += partitions
        except KafkaError:
            assert is_strict
        clients.now_ms += request.throttle_ms()
    elapsed_s = (clients.now_ms - began_ms) / 1000
    assert created <= rate * (elapsed_s + 10) + 50 + 0.1
