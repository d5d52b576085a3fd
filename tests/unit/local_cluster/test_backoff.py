"""Delays between attempts, and which failures are new."""

from __future__ import annotations

from local_cluster.backoff import Failure, FailureBackoff
from local_cluster.wire.errors import ErrorCode

FULL = ErrorCode.kafka_storage_error
DAMAGED = ErrorCode.corrupt_message


def test_the_delay_doubles_up_to_the_maximum_and_starts_over_after_a_success() -> None:
    backoff: FailureBackoff[str] = FailureBackoff(100, 500)
    delays = [backoff.failed("a", FULL).delay_ms for _ in range(5)]
    assert delays == [100, 200, 400, 500, 500]
    assert backoff.failed("b", FULL).delay_ms == 100, "each key has its own delay"
    assert backoff.succeeded("a") == 5
    assert backoff.succeeded("a") == 0
    assert backoff.failed("a", FULL).delay_ms == 100


def test_a_failure_is_new_at_first_and_when_the_reason_changes() -> None:
    backoff: FailureBackoff[str] = FailureBackoff(100, 500)
    failures = [backoff.failed("a", code) for code in (FULL, FULL, DAMAGED, DAMAGED, FULL)]
    assert [each.is_new for each in failures] == [True, False, True, False, True]
    assert [each.attempts for each in failures] == [1, 2, 3, 4, 5]


def test_a_forgotten_key_starts_over() -> None:
    backoff: FailureBackoff[str] = FailureBackoff(100, 500)
    backoff.failed("a", FULL)
    backoff.forget("a")
    assert backoff.failed("a", FULL) == Failure(100, True, 1)


def test_the_maximum_is_never_below_the_minimum() -> None:
    backoff: FailureBackoff[str] = FailureBackoff(5_000, 1_000)
    assert [backoff.failed("a", FULL).delay_ms for _ in range(2)] == [5_000, 5_000]
