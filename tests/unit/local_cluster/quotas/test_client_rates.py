"""Who waits for whom, quotas that change, and how many clients are remembered."""

from __future__ import annotations

import pytest

from local_cluster.quotas import client_meters
from local_cluster.quotas.client_rates import ClientRates
from local_cluster.quotas.entity import CLIENT_ID, USER, Entity, entity
from local_cluster.quotas.quota_keys import PRODUCER_BYTE_RATE

A, B = "User:a", "User:b"


def rates(*quotas: tuple[Entity, float], exempt: tuple[str, ...] = ()) -> ClientRates:
    made = ClientRates(PRODUCER_BYTE_RATE, windows=11, window_ms=1_000, exempt=exempt)
    made.set_quotas({which: {PRODUCER_BYTE_RATE: value} for which, value in quotas})
    return made


def test_without_a_quota_nothing_is_recorded() -> None:
    used = rates()
    assert not used.is_used
    used.set_quotas({entity({USER: "a"}): {"consumer_byte_rate": 1}})
    assert not used.is_used
    assert used.record(A, "x", 10**9, 0) == 0
    assert not list(used.meters.shown(0))


def test_clients_of_a_user_share_its_quota() -> None:
    used = rates((entity({USER: "a"}), 100))
    assert used.record(A, "x", 1_000, 0) == 0
    assert used.record(A, "y", 1_000, 0) == 10_000
    assert used.record(B, "x", 10**9, 0) == 0


def test_users_with_a_client_id_share_its_quota() -> None:
    used = rates((entity({CLIENT_ID: "x"}), 100))
    assert used.record(A, "x", 1_000, 0) == 0
    assert used.record(B, "x", 1_000, 0) == 10_000
    assert used.record(A, None, 10**9, 0) == 0


def test_a_default_gives_each_its_own_quota() -> None:
    used = rates((entity({USER: None}), 100))
    assert used.record(A, "x", 1_000, 0) == 0
    assert used.record(B, "x", 1_000, 0) == 0
    assert used.record(B, "y", 1_000, 0) == 10_000


def test_a_changed_quota_holds_at_once_and_the_rate_goes_on() -> None:
    used = rates((entity({USER: "a"}), 100))
    assert used.record(A, "x", 1_000, 0) == 0
    used.set_quotas({entity({USER: "a"}): {PRODUCER_BYTE_RATE: 50}})
    assert used.wait_ms(A, "x", 0) == 10_000
    used.set_quotas({entity({USER: "a"}): {PRODUCER_BYTE_RATE: 200}})
    assert used.wait_ms(A, "x", 0) == 0
    used.set_quotas({})
    assert used.record(A, "x", 10**9, 0) == 0


def test_a_wait_has_a_limit_where_kafka_has_one() -> None:
    used = ClientRates(PRODUCER_BYTE_RATE, windows=11, window_ms=1_000, wait_ms_max=1_000)
    used.set_quotas({entity({USER: "a"}): {PRODUCER_BYTE_RATE: 1}})
    assert used.record(A, "x", 10**9, 0) == 1_000


def test_brokers_have_only_quotas_that_name_them() -> None:
    default = (entity({USER: None}), 1.0)
    client = (entity({CLIENT_ID: None}), 1.0)
    used = rates(default, client, exempt=(A,))
    assert used.record(A, "x", 10**9, 0) == 0
    assert used.record(B, "x", 10**9, 0) > 0
    used = rates(default, (entity({USER: "a"}), 2.0), exempt=(A,))
    assert used.record(A, "x", 10**9, 0) > 0


def test_what_may_be_done_at_once() -> None:
    used = rates((entity({USER: "a"}), 100))
    assert used.value_max(A, "x", 0) == 1_000
    assert used.value_max(B, "x", 0) is None
    assert used.record(A, "x", 1_000, 0) == 0


def test_client_ids_without_end_need_no_memory_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_meters, "METERS_MAX", 10)
    monkeypatch.setattr(client_meters, "CLIENTS_MAX", 20)
    used = rates((entity({CLIENT_ID: None}), 100))
    for number in range(1_000):
        used.record(A, f"client {number}", 1, number)
        assert len(used.meters._meters) <= 10
        assert len(used.meters._of_clients) <= 20
    assert used.record(A, "client 999", 2_000, 999) > 0
