"""Who counts as a broker, in each phase of a move to another inter-broker listener."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import pytest
from pydantic import TypeAdapter

from local_cluster.handlers.broker_requests import (
    is_broker_connection,
    is_from_broker,
    may_write_markers,
)
from local_cluster.handlers.services import RequestContext
from local_cluster.settings import BrokerSettings
from local_cluster.wire.api import ApiKey

PLAIN: Final = {"name": "PLAIN", "host": "h", "port": 1}
OTHER: Final = {"name": "OTHER", "host": "h", "port": 2}
SECURE: Final = {
    "name": "SECURE",
    "host": "h",
    "port": 3,
    "security_protocol": "SASL_PLAINTEXT",
    "sasl": {"users": {"broker": {"env": "B"}}},
}
AS_BROKER: Final = {
    "protocol": "SASL_PLAINTEXT",
    "mechanism": "SCRAM-SHA-512",
    "username": "broker",
    "password": {"env": "B"},
}
COMMON: Final = {
    "cluster": "c",
    "broker_id": 1,
    "listeners": [PLAIN, OTHER, SECURE],
    "zookeeper_connect": "z",
    "log_dirs": ["d"],
    "ready_file": "r",
    "broker_principals": ["User:broker"],
}
BESIDE: Final = {**COMMON, "inter_broker_listener": "PLAIN"}
MOVED: Final = {**COMMON, "inter_broker_listener": "SECURE", "inter_broker_security": AS_BROKER}
TRUSTING: Final = {**MOVED, "former_inter_broker_listener": "PLAIN"}

ANYBODY: Final = ("PLAIN", "User:ANONYMOUS")
ELSEWHERE: Final = ("OTHER", "User:ANONYMOUS")
BROKER: Final = ("SECURE", "User:broker")
ALICE: Final = ("SECURE", "User:alice")
BROKER_ELSEWHERE: Final = ("OTHER", "User:broker")


def broker(fields: dict[str, Any], *, denies: bool = False) -> Any:
    return SimpleNamespace(
        settings=TypeAdapter(BrokerSettings).validate_python(fields),
        authorize=lambda *_: not denies,
        holds=lambda *_: not denies,
    )


def context(listener: str, principal: str) -> RequestContext:
    return RequestContext(ApiKey.FETCH, 13, 1, "c", principal, listener, "h", 1)


@pytest.mark.parametrize(
    ("phase", "brokers"),
    [
        (BESIDE, {ANYBODY, BROKER, BROKER_ELSEWHERE}),
        (TRUSTING, {ANYBODY, BROKER, BROKER_ELSEWHERE}),
        (MOVED, {BROKER, BROKER_ELSEWHERE}),
    ],
    ids=["beside", "trusting", "moved"],
)
def test_who_counts_as_a_broker(phase: dict[str, Any], brokers: set[tuple[str, str]]) -> None:
    clients = {ANYBODY, ELSEWHERE, BROKER, ALICE, BROKER_ELSEWHERE}
    counted = {each for each in clients if is_broker_connection(broker(phase), context(*each))}
    assert counted == brokers
    assert {each for each in clients if is_from_broker(broker(phase), context(*each))} == brokers
    for each in clients:
        assert not is_from_broker(broker(phase, denies=True), context(*each))


def test_markers_of_tools_end_with_the_move_and_those_of_brokers_go_on() -> None:
    assert may_write_markers(broker(BESIDE), context(*ALICE)), "kafka-transactions abort"
    for phase in (TRUSTING, MOVED):
        assert not may_write_markers(broker(phase), context(*ALICE))
        assert may_write_markers(broker(phase), context(*BROKER))
    assert may_write_markers(broker(TRUSTING), context(*ANYBODY)), "a broker that has not moved"
    assert not may_write_markers(broker(MOVED), context(*ANYBODY))
