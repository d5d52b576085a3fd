"""Which processes restart, and what keeps the next one from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from topology.deployment.deployment import BrokerView, ClusterView, Daemon, Deployment
from topology.operate.restart_stages import PartitionState
from topology.upgrade.restart_order import REASONS_MAX, held_back, shortened, to_restart, trouble


def daemon(key: str, version: str = "1.0") -> Daemon:
    role = "mirror" if key == "m" else "broker"
    return Daemon(key=key, role=role, label=key, argv=(key,), version=version)  # type: ignore[arg-type]


WANTED = Deployment(
    name="d",
    topology_file="/d.yaml",
    daemons=(daemon("b1", "2.0"), daemon("b2", "2.0"), daemon("m", "2.0")),
    clusters=(
        ClusterView(
            name="ewr",
            kind="local",
            datacenter="ewr",
            bootstrap="h:1",
            brokers=(
                BrokerView(id=1, host="h", port=1, daemon="b1"),
                BrokerView(id=2, host="h", port=2, daemon="b2"),
            ),
        ),
    ),
    links=(),
)
RUNNING = {"b1": daemon("b1"), "b2": daemon("b2", "2.0"), "m": daemon("m")}
IN_SYNC = {"ewr": [PartitionState("t-0", 1, (1, 2), (2, 1))]}


def status(**changed: Any) -> dict[str, Any]:
    document: dict[str, Any] = {
        "supervisor": {"pid": 1},
        "daemons": [{"label": "b1", "state": "running"}],
        "elsewhere": [{"label": "b3", "host": "h3", "state": "answers"}],
        "links": [{"name": "l", "state": "held", "reason": "paused"}],
    }
    return {**document, **changed}


def test_only_what_runs_another_version_restarts_in_the_order_of_the_deployment() -> None:
    assert to_restart(WANTED, RUNNING) == ["b1", "m"]
    assert to_restart(WANTED, {"m": RUNNING["m"]}) == ["m"], "what does not run has no turn"


def test_what_comes_later_stays_as_it_runs() -> None:
    stage = held_back(WANTED, RUNNING, ["m"])
    assert [each.version for each in stage.daemons] == ["2.0", "2.0", "1.0"]
    assert replace(stage, daemons=WANTED.daemons) == WANTED


def test_nothing_is_wrong() -> None:
    assert trouble(WANTED, status(), IN_SYNC) == []
    abandoned = {"ewr": [PartitionState("t-0", 1, (1, 2, 9), (1, 2))]}
    assert trouble(WANTED, status(), abandoned) == [], "broker 9 left the file"


@pytest.mark.parametrize(
    ("changed", "partitions", "says"),
    [
        ({"supervisor": None}, IN_SYNC, "the supervisor does not answer"),
        ({"daemons": [{"label": "b1", "state": "starting"}]}, IN_SYNC, "b1: starting"),
        (
            {"elsewhere": [{"label": "b3", "host": "h3", "state": "not_started"}]},
            IN_SYNC,
            "b3 on h3: not started",
        ),
        (
            {"links": [{"name": "l", "state": "failed", "reason": "no right"}]},
            IN_SYNC,
            "link l has failed: no right",
        ),
        ({}, {"ewr": None}, "ewr: its controller does not say which replicas are in sync"),
        (
            {},
            {"ewr": [PartitionState("t-0", 1, (1, 2), (1,))]},
            "ewr: t-0 is behind on broker 2",
        ),
        ({}, {"ewr": [PartitionState("t-0", -1, (1,), (1,))]}, "ewr: t-0 has no leader"),
    ],
)
def test_what_is_wrong_is_said(changed: dict[str, Any], partitions: Any, says: str) -> None:
    assert trouble(WANTED, status(**changed), partitions) == [says]


def test_many_reasons_are_counted() -> None:
    reasons = [str(each) for each in range(REASONS_MAX + 3)]
    assert shortened(reasons)[-1] == "and 3 more"
    assert shortened(reasons[:REASONS_MAX]) == reasons[:REASONS_MAX]
