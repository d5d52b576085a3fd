"""Dynamic broker configs: changes, refusals, descriptions."""

from __future__ import annotations

import pytest

from local_cluster.controller.decisions.config_requests import (
    BROKER_RULES,
    ConfigChange,
    changed_configs,
)
from local_cluster.controller.decisions.dynamic_broker_configs import (
    FOLLOWER_RATE,
    LEADER_RATE,
    LOG_DIRS_RATE,
)
from local_cluster.controller.decisions.fsm import step
from local_cluster.controller.model import events
from local_cluster.controller.model.cluster_state import ClusterState
from local_cluster.wire.constants import AlterOperation
from local_cluster.wire.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        (LEADER_RATE, "-1", ErrorCode.invalid_config),
        (LEADER_RATE, "much", ErrorCode.invalid_config),
        ("log.dirs", "/elsewhere", ErrorCode.invalid_request),
        ("no.such", "1", ErrorCode.invalid_request),
    ],
)
def test_refusals(name: str, value: str, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        changed_configs({}, [ConfigChange(name, AlterOperation.SET, value)], BROKER_RULES)
    assert refused.value.code is code


def test_unknown_configs_of_other_tools_are_kept() -> None:
    before = {"log.cleaner.threads": "2"}
    changes = [ConfigChange(LEADER_RATE, AlterOperation.SET, "5")]
    assert changed_configs(before, changes, BROKER_RULES) == {**before, LEADER_RATE: "5"}


def test_tools_may_delete_configs_that_are_not_set() -> None:
    """kafka-reassign-partitions --verify deletes all throttles."""
    names = (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)
    changes = [ConfigChange(name, AlterOperation.DELETE, None) for name in names]
    assert changed_configs({LEADER_RATE: "5"}, changes, BROKER_RULES) == {}


def test_the_controller_forgets_a_broker_without_configs() -> None:
    seen = step(ClusterState(), events.BrokerConfigsSeen("1", {LEADER_RATE: "5"})).state
    assert seen.broker_configs == {"1": {LEADER_RATE: "5"}}
    assert step(seen, events.BrokerConfigsSeen("1", {})).state.broker_configs == {}


def test_the_controller_keeps_configs_of_groups_apart() -> None:
    configs = {"consumer.session.timeout.ms": "50000"}
    seen = step(ClusterState(), events.EntityConfigsSeen("groups/etl", configs)).state
    assert (seen.entity_configs, seen.broker_configs) == ({"groups/etl": configs}, {})
    assert step(seen, events.EntityConfigsSeen("groups/etl", {})).state.entity_configs == {}
