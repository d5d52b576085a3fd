"""Configs of running brokers: who may change what, and how every broker comes to know."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from local_cluster.controller.decisions import fsm
from local_cluster.controller.decisions.config_requests import (
    BROKER_RULES,
    AlterOperation,
    ConfigChange,
    changed_configs,
)
from local_cluster.controller.decisions.dynamic_broker_configs import (
    FOLLOWER_RATE,
    LEADER_RATE,
    LOG_DIRS_RATE,
    describe_dynamic,
)
from local_cluster.controller.decisions.fsm import step
from local_cluster.controller.member.config_writer import write_broker_configs
from local_cluster.controller.model import znodes
from local_cluster.controller.model.cluster_state import ClusterState
from local_cluster.log.config.description import ConfigSource
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeCoordination, FakeZooKeeper


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


def test_what_a_tool_of_another_version_set_is_kept() -> None:
    before = {"log.cleaner.threads": "2"}
    changes = [ConfigChange(LEADER_RATE, AlterOperation.SET, "5")]
    assert changed_configs(before, changes, BROKER_RULES) == {**before, LEADER_RATE: "5"}


def test_tools_may_take_away_what_is_not_set() -> None:
    """kafka-reassign-partitions --verify does that to all throttles."""
    names = (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)
    changes = [ConfigChange(name, AlterOperation.DELETE, None) for name in names]
    assert changed_configs({LEADER_RATE: "5"}, changes, BROKER_RULES) == {}


def test_what_is_described() -> None:
    entities = {"1": {LEADER_RATE: "5"}, "<default>": {LEADER_RATE: "7", FOLLOWER_RATE: "8"}}
    told = {entry.name: entry for entry in describe_dynamic(entities, 1)}
    assert told[LEADER_RATE].value == "5"
    assert [each.source for each in told[LEADER_RATE].synonyms] == [
        ConfigSource.DYNAMIC_BROKER,
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
    ]
    assert told[FOLLOWER_RATE].source is ConfigSource.DYNAMIC_DEFAULT_BROKER
    assert [entry.value for entry in describe_dynamic(entities, None)] == ["8", "7"]
    assert describe_dynamic({}, 1) == []


async def test_the_change_and_its_notification_are_one_commit() -> None:
    server = FakeZooKeeper()
    coordination = FakeCoordination(server)
    for path in znodes.PERSISTENT_PATHS:
        server.write(path)

    def plan(current: Mapping[str, str]) -> dict[str, str]:
        return {**current, LEADER_RATE: "5"}

    await write_broker_configs(coordination, "1", plan, validate_only=True)
    assert server.child_names(znodes.CONFIG_CHANGES) == ()
    await write_broker_configs(coordination, "1", plan, validate_only=False)
    stored = await coordination.read("/config/brokers/1")
    assert stored is not None
    assert znodes.decode_config(stored.payload) == {LEADER_RATE: "5"}
    (name,) = server.child_names(znodes.CONFIG_CHANGES)
    notice = await coordination.read(f"{znodes.CONFIG_CHANGES}/{name}")
    assert notice is not None
    assert znodes.decode_config_change(notice.payload) == ("brokers", "1")


def test_the_controller_forgets_a_broker_without_configs() -> None:
    seen = step(ClusterState(), fsm.BrokerConfigsSeen("1", {LEADER_RATE: "5"})).state
    assert seen.broker_configs == {"1": {LEADER_RATE: "5"}}
    assert step(seen, fsm.BrokerConfigsSeen("1", {})).state.broker_configs == {}
