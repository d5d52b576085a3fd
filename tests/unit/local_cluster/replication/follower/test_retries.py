"""When what fails is tried again, and what of it is said."""

from __future__ import annotations

from local_cluster.replication.follower.retries import Failed, Retries
from local_cluster.wire.errors import ErrorCode

FULL = ErrorCode.kafka_storage_error
DAMAGED = ErrorCode.corrupt_message


def test_the_time_doubles_up_to_its_limit_and_begins_anew() -> None:
    retries: Retries[str] = Retries(100, 500)
    delays = [retries.failed("a", FULL).delay_ms for _ in range(5)]
    assert delays == [100, 200, 400, 500, 500]
    assert retries.failed("b", FULL).delay_ms == 100, "each has its own time"
    assert retries.succeeded("a") == 5
    assert retries.succeeded("a") == 0
    assert retries.failed("a", FULL).delay_ms == 100


def test_a_failure_is_said_when_it_begins_and_when_its_reason_is_another() -> None:
    retries: Retries[str] = Retries(100, 500)
    said = [retries.failed("a", code) for code in (FULL, FULL, DAMAGED, DAMAGED, FULL)]
    assert [each.is_news for each in said] == [True, False, True, False, True]
    assert [each.attempts for each in said] == [1, 2, 3, 4, 5]


def test_what_is_forgotten_begins_anew() -> None:
    retries: Retries[str] = Retries(100, 500)
    retries.failed("a", FULL)
    retries.forget("a")
    assert retries.failed("a", FULL) == Failed(100, True, 1)


def test_the_limit_is_never_less_than_the_first_delay() -> None:
    retries: Retries[str] = Retries(5_000, 1_000)
    assert [retries.failed("a", FULL).delay_ms for _ in range(2)] == [5_000, 5_000]
