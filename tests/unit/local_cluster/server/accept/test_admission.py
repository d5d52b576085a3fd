"""Decisions about new connections, and the configs that they follow."""

from __future__ import annotations

import pytest

from local_cluster.broker_configs import find_problem, is_known, listener_config
from local_cluster.kafka_configs.address_limits import plain_address
from local_cluster.quotas.quota_keys import CONNECTION_CREATION_RATE
from local_cluster.server.accept.admission import RATES_MAX, Admission
from local_cluster.server.accept.limits import ConnectionLimits

HERE, THERE = "10.0.0.1", "10.0.0.2"


def limits(**configs: str) -> ConnectionLimits:
    return ConnectionLimits.of({name.replace("_", "."): text for name, text in configs.items()})


def test_without_configs_nothing_is_limited_but_idle_time() -> None:
    found = ConnectionLimits.of({})
    assert (found.connections_max, found.per_address_max) == (2**31 - 1, 2**31 - 1)
    assert (found.creations_per_second_max, found.idle_ms_max) == (2**31 - 1, 600_000)
    admission = Admission(found)
    assert all(admission.admit("CLIENTS", HERE, 0) is None for _ in range(5_000))
    assert all(admission.note_created("A", 0) == 0 for _ in range(5_000))


def test_an_address_has_so_many_connections_and_no_more() -> None:
    admission = Admission(
        limits(
            max_connections_per_ip="2",
            max_connections_per_ip_overrides=f" {THERE}:3 , ::ffff:10.0.0.3:0",
        )
    )
    for address, most in ((HERE, 2), (THERE, 3), (plain_address("10.0.0.3"), 0)):
        assert [admission.admit("CLIENTS", address, 0) for _ in range(most)] == [None] * most
        refusal = admission.admit("CLIENTS", address, 0)
        assert refusal is not None
        assert (refusal.kind, refusal.delay_ms) == ("per_ip", 0)
        assert f"{address} has {most} connections" in refusal.reason
    admission.release("CLIENTS", HERE)
    assert admission.admit("CLIENTS", HERE, 0) is None
    assert admission.admit("CLIENTS", HERE, 0) is not None
    assert admission.open_connections == 5


def test_the_listener_of_brokers_is_never_full_and_takes_the_place_of_others() -> None:
    admission = Admission(limits(max_connections="2"), protected=("BROKERS",))
    for _ in range(2):
        assert admission.has_room("CLIENTS")
        assert admission.admit("CLIENTS", HERE, 0) is None
    assert not admission.has_room("CLIENTS") and admission.has_room("BROKERS")
    assert admission.excess == 0
    assert admission.admit("BROKERS", THERE, 0) is None
    assert admission.excess == 1
    admission.release("CLIENTS", HERE)
    assert (admission.excess, admission.has_room("CLIENTS")) == (0, False)
    admission.release("CLIENTS", HERE)
    assert admission.has_room("CLIENTS")


def test_a_listener_has_limits_of_its_own_beside_those_of_the_broker() -> None:
    admission = Admission(
        ConnectionLimits.of(
            {
                "max.connections": "3",
                "listener.name.clients.max.connections": "2",
                "listener.name.brokers.max.connections": "4",
            }
        ),
        protected=("BROKERS",),
    )
    for _ in range(2):
        assert admission.has_room("CLIENTS") and admission.admit("CLIENTS", HERE, 0) is None
    assert not admission.has_room("CLIENTS")
    assert admission.has_room("OTHERS") and admission.admit("OTHERS", HERE, 0) is None
    assert not admission.has_room("OTHERS"), "the broker is full"
    for _ in range(4):
        assert admission.has_room("BROKERS") and admission.admit("BROKERS", THERE, 0) is None
    assert not admission.has_room("BROKERS"), "it is protected from the broker's limit only"
    admission.release("BROKERS", THERE)
    assert admission.has_room("BROKERS")


def test_the_rate_of_a_listener_holds_beside_that_of_the_broker() -> None:
    admission = Admission(
        ConnectionLimits.of(
            {
                "max.connection.creation.rate": "20",
                "listener.name.brokers.max.connection.creation.rate": "10",
            }
        ),
        protected=("BROKERS",),
    )
    assert [admission.note_created("BROKERS", 0) for _ in range(100)] == [0] * 100
    assert admission.note_created("BROKERS", 0) == 100
    assert [admission.note_created("CLIENTS", 0) for _ in range(200)] == [0] * 200
    assert admission.note_created("CLIENTS", 0) > 0


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.CLIENTS.max.connections",
        "listener.name.max.connections",
        "listener.name.clients.max.connections.per.ip",
        "listener.name.a.b.max.connections",
    ],
)
def test_other_names_are_no_limits_of_a_listener(name: str) -> None:
    assert listener_config(name) is None
    assert not is_known(name)


def test_a_limit_of_a_listener_is_checked_as_that_of_the_broker() -> None:
    name = "listener.name.clients.max.connections"
    assert is_known(name)
    assert find_problem(name, "many") == find_problem("max.connections", "many") is not None
    assert find_problem(name, "5") is None


def test_above_the_rate_the_listener_waits_for_a_window_at_most() -> None:
    admission = Admission(limits(max_connection_creation_rate="10"), protected=("BROKERS",))
    assert [admission.note_created("CLIENTS", 0) for _ in range(100)] == [0] * 100
    # 101 in the ten seconds that always count: 10.1 a second is 1 % too fast.
    assert admission.note_created("CLIENTS", 0) == 100
    assert admission.note_created("BROKERS", 0) == 0
    for _ in range(100):
        admission.note_created("CLIENTS", 0)
    assert admission.note_created("CLIENTS", 0) == 1_000
    assert admission.note_created("CLIENTS", 30_000) == 0


def test_the_quota_of_an_address_refuses_and_does_not_count_what_it_refused() -> None:
    admission = Admission(limits())
    admission.set_quotas(
        {
            (("ip", HERE),): {CONNECTION_CREATION_RATE: 2.0},
            (("ip", None),): {CONNECTION_CREATION_RATE: 1.0},
            (("user", "alice"),): {"producer_byte_rate": 1.0},
        }
    )
    for address, burst in ((HERE, 20), (THERE, 10)):
        assert [admission.admit("CLIENTS", address, 0) for _ in range(burst)] == [None] * burst
        delays = set()
        for _ in range(50):
            refusal = admission.admit("CLIENTS", address, 0)
            assert refusal is not None and refusal.kind == "ip_rate"
            delays.add(refusal.delay_ms)
        assert len(delays) == 1 and 0 < delays.pop() <= 1_000
        assert admission.admit("CLIENTS", address, 12_000) is None
    assert admission.open_connections == 32
    admission.set_quotas({})
    assert all(admission.admit("CLIENTS", HERE, 12_000) is None for _ in range(100))


def test_a_flood_of_addresses_is_forgotten_in_the_order_of_their_use() -> None:
    admission = Admission(limits())
    admission.set_quotas({(("ip", None),): {CONNECTION_CREATION_RATE: 0.1}})
    for number in range(RATES_MAX + 10):
        admission.admit("CLIENTS", f"fd00::{number:x}", number)
    assert len(admission._rates) == RATES_MAX


def test_limits_can_be_replaced() -> None:
    admission = Admission(limits(max_connections_per_ip="1"))
    assert (
        admission.admit("CLIENTS", HERE, 0) is None
        and admission.admit("CLIENTS", HERE, 0) is not None
    )
    admission.limits = limits(max_connections_per_ip="2")
    assert admission.admit("CLIENTS", HERE, 0) is None


@pytest.mark.parametrize(
    "text", ["10.0.0.1", "10.0.0.1:x", "host:1", ":1", "10.0.0.1:1 10.0.0.2:2"]
)
def test_overrides_that_are_none_are_refused_at_the_start(text: str) -> None:
    problem = find_problem("max.connections.per.ip.overrides", text)
    assert problem == "addresses with numbers such as 10.0.0.1:100,::1:200"


def test_an_address_has_one_form() -> None:
    assert plain_address("::ffff:10.0.0.1") == "10.0.0.1"
    assert plain_address("fe80::0001%eth0") == "fe80::1"
    assert find_problem("max.connections.per.ip.overrides", "10.0.0.1:100,::1:200,[::2]:3") is None
