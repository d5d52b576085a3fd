"""Client instances: which requests are too early, unknown or last, as in Kafka."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from local_cluster.client_metrics import instances
from local_cluster.client_metrics.instances import ClientInstances, Instance, check_get, check_push
from local_cluster.client_metrics.subscriptions import read_subscriptions
from local_cluster.wire.errors import ErrorCode

ID = uuid.UUID(int=99)
INTERVAL_MS = 1_000


def known(interval_ms: int = INTERVAL_MS) -> ClientInstances:
    found = ClientInstances()
    found.set_subscriptions(subscriptions(interval_ms))
    return found


def subscriptions(interval_ms: int) -> Any:
    return read_subscriptions({"client-metrics/s": {"interval.ms": str(interval_ms)}})


def push(instance: Instance, now_ms: int, **changes: Any) -> ErrorCode:
    fields: dict[str, Any] = {
        "subscription_id": instance.subscription_id,
        "compression_type": 4,
        "payload_bytes": 10,
        "payload_bytes_max": 10,
        "terminating": False,
    }
    return check_push(instance, now_ms=now_ms, **{**fields, **changes})


def test_the_first_push_may_come_early_the_next_after_the_interval() -> None:
    one = known().use(ID, {}, 1, 0)
    assert check_get(one, 0) is ErrorCode.none
    assert push(one, 500) is ErrorCode.none
    assert push(one, 1499) is ErrorCode.throttling_quota_exceeded
    assert push(one, 1500) is ErrorCode.none
    assert check_get(one, 2499) is ErrorCode.throttling_quota_exceeded
    assert check_get(one, 2500) is ErrorCode.none


def test_a_push_without_a_subscription_request_is_taken() -> None:
    assert push(known().use(ID, {}, 1, 0), 0) is ErrorCode.none


@pytest.mark.parametrize(
    ("changes", "expected", "may_ask_again"),
    [
        ({"subscription_id": 1}, ErrorCode.unknown_subscription_id, True),
        ({"compression_type": 5}, ErrorCode.unsupported_compression_type, True),
        ({"compression_type": -1}, ErrorCode.unsupported_compression_type, True),
        ({"payload_bytes": 11}, ErrorCode.telemetry_too_large, False),
        ({"compression_type": 0}, ErrorCode.none, False),
    ],
)
def test_a_refused_push(changes: dict[str, Any], expected: ErrorCode, may_ask_again: bool) -> None:
    one = known().use(ID, {}, 1, 0)
    assert push(one, 0, **changes) is expected
    allowed = check_get(one, 1) is ErrorCode.none
    assert allowed == may_ask_again


def test_nothing_follows_a_terminating_push() -> None:
    one = known().use(ID, {}, 1, 0)
    assert push(one, 0) is ErrorCode.none
    assert push(one, 1, terminating=True) is ErrorCode.none
    assert push(one, 5_000) is ErrorCode.invalid_request


def test_changed_subscriptions_are_learned_at_once() -> None:
    found = known()
    before = found.use(ID, {"client_id": "a"}, 1, 0)
    assert check_get(before, 0) is ErrorCode.none
    found.set_subscriptions(subscriptions(INTERVAL_MS))
    assert found.use(ID, {}, 1, 1) is before
    found.set_subscriptions(subscriptions(500))
    after = found.use(ID, {}, 1, 2)
    assert after is not before
    assert after.attributes == {"client_id": "a"}
    assert check_get(after, 2) is ErrorCode.none
    assert push(after, 3, subscription_id=before.subscription_id) is (
        ErrorCode.unknown_subscription_id
    )


def test_an_instance_ends_with_its_connection_or_after_three_intervals() -> None:
    found = known(interval_ms=30_000)
    one = found.use(ID, {}, 7, 0)
    assert found.use(ID, {}, 7, 89_999) is one
    assert found.use(ID, {}, 7, 89_999 + 90_000) is not one
    found.end_connection(7)
    assert len(found) == 0
    found.use(ID, {}, 8, 0)
    found.use(uuid.UUID(int=5), {}, 9, 1_000_000)
    assert len(found) == 1


def test_the_least_recently_used_instance_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "INSTANCES_MAX", 2)
    found = known()
    ids = [uuid.UUID(int=number) for number in (11, 12, 13)]
    for each in (ids[0], ids[1], ids[0], ids[2]):
        found.use(each, {}, 1, 0)
    assert [each in found for each in ids] == [True, False, True]
