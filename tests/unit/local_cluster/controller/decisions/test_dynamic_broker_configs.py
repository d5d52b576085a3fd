"""Dynamic broker configs: changes, refusals, values that count."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest

from local_cluster.broker_configs import KNOWN_BROKER_CONFIGS
from local_cluster.controller.decisions.config_requests import (
    ConfigChange,
    broker_rules,
    changed_configs,
)
from local_cluster.controller.decisions.dynamic_broker_configs import (
    DYNAMIC_BROKER_CONFIGS,
    FOLLOWER_RATE,
    LEADER_RATE,
    LOG_DIRS_RATE,
    PER_LISTENER,
    THROTTLES,
    broker_overrides,
    check_broker_configs,
    valid_configs,
)
from local_cluster.controller.decisions.elections import unclean_default
from local_cluster.controller.decisions.fsm import step
from local_cluster.controller.model import events
from local_cluster.controller.model.cluster_state import ClusterState
from local_cluster.kafka_configs.table import kafka_configs
from local_cluster.log.config.log_config import LogConfig
from local_cluster.wire.constants import AlterOperation
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.samples import brokers, partition, topic

ONE = broker_rules(for_all=False)
ALL = broker_rules(for_all=True)
PAGE = Path(__file__).parents[5] / "docs" / "operations" / "broker-configs.md"
FIXED = "Cannot update these configs dynamically: "
UNCLEAN = "unclean.leader.election.enable"


def set_one(name: str, value: str) -> list[ConfigChange]:
    return [ConfigChange(name, AlterOperation.SET, value)]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (LEADER_RATE, "-1", f"Invalid value -1 for configuration {LEADER_RATE}: "),
        (LEADER_RATE, "much", f"Invalid value much for configuration {LEADER_RATE}: "),
        ("log.dirs", "/elsewhere", f"{FIXED}[log.dirs]"),
        ("num.partitions", "2", f"{FIXED}[num.partitions]"),
        ("heliograph.acl.image.max.age.ms", "2", FIXED),
        ("log.retention.hours", "2", FIXED),
        ("log.retention.ms", "0", "requirement failed: log.retention.ms must be unlimited"),
        ("log.cleaner.io.buffer.load.factor", "0", "requirement failed: "),
        ("log.cleaner.min.cleanable.ratio", "2", "Invalid value 2.0 for configuration "),
        ("num.io.threads", "9", f"{FIXED}[num.io.threads]. This broker does not use it"),
        ("log.retention.mss", "1", "Unknown broker config name: log.retention.mss; did you mean"),
        ("ssl.keystore.password", "hush", "These security configs can be dynamically updated"),
        ("listener.name.l.ssl.keystore.password", "hush", f"{FIXED}[listener.name.l"),
        ("listener.name.l.sasl.jaas.config", "hush", f"{FIXED}[listener.name.l"),
        ("listeners", "L://h:1", f"{FIXED}[listeners]. Listeners change with a restart"),
    ],
)
def test_refusals(name: str, value: str, message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        changed_configs({}, set_one(name, value), ONE)
    assert refused.value.code is ErrorCode.invalid_request
    assert refused.value.message.startswith(message)
    assert "hush" not in refused.value.message


@pytest.mark.parametrize(
    "name", ["listeners", "listener.name.l.ssl.keystore.location", "principal.builder.class"]
)
def test_configs_of_one_broker_are_refused_for_all(name: str) -> None:
    with pytest.raises(KafkaError, match="default cluster level, broker id must be specified"):
        changed_configs({}, set_one(name, "x"), ALL)


def test_lists_are_appended_to() -> None:
    name = "log.cleanup.policy"
    append = [ConfigChange(name, AlterOperation.APPEND, "compact")]
    assert changed_configs({}, append, ONE) == {name: "delete,compact"}
    with pytest.raises(KafkaError, match="Config value append is not allowed") as refused:
        changed_configs({}, [ConfigChange(LEADER_RATE, AlterOperation.APPEND, "1")], ONE)
    assert refused.value.code is ErrorCode.invalid_config


def test_no_password_is_dynamic_and_every_used_config_of_kafka_is() -> None:
    """A config that is read from the settings only once must not be taken at run time."""
    kafkas = {name for name, config in kafka_configs("broker").items() if config.is_dynamic}
    used = {name for name in KNOWN_BROKER_CONFIGS if name in kafkas}
    own = {"heliograph.log.record.check"}
    assert DYNAMIC_BROKER_CONFIGS.keys() == used | THROTTLES.keys() | own
    assert not any(config.is_sensitive for config in DYNAMIC_BROKER_CONFIGS.values())
    assert kafkas >= PER_LISTENER


def test_the_page_names_every_config_that_kafka_changes() -> None:
    altered, refused = (
        set(re.findall(r"`([a-z0-9*]+(?:\.[a-z0-9*]+)*)`", part))
        for part in PAGE.read_text().split("## What can be changed")[1].split("## What is refused")
    )
    assert altered >= DYNAMIC_BROKER_CONFIGS.keys()
    for name, config in kafka_configs("broker").items():
        if config.is_dynamic:
            is_refused = any(fnmatch.fnmatchcase(name, pattern) for pattern in refused)
            assert is_refused is (name not in DYNAMIC_BROKER_CONFIGS), name


def test_unknown_configs_of_other_tools_are_kept() -> None:
    before = {"log.cleaner.threads": "2"}
    assert changed_configs(before, set_one(LEADER_RATE, "5"), ONE) == {**before, LEADER_RATE: "5"}


def test_tools_may_delete_configs_that_are_not_set() -> None:
    """kafka-reassign-partitions --verify deletes all throttles."""
    names = (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE, "num.partitions", "no.such.config")
    changes = [ConfigChange(name, AlterOperation.DELETE, None) for name in names]
    assert changed_configs({LEADER_RATE: "5"}, changes, ONE) == {}


def test_stored_values_that_are_not_valid_do_not_count() -> None:
    entities = {
        "<default>": {"log.retention.ms": "70000", "log.roll.ms": "80000", "log.dirs": "/x"},
        "1": {"log.retention.ms": "soon", "log.roll.jitter.ms": "-1", "log.roll.ms": "90000"},
    }
    in_use = broker_overrides(entities, 1)
    assert in_use == {"log.retention.ms": "70000", "log.roll.ms": "90000"}
    assert LogConfig.of({}, in_use).segment_ms == 90_000


def test_a_negative_retention_is_unlimited() -> None:
    assert changed_configs({}, set_one("log.retention.ms", "-5"), ONE)
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        assert LogConfig.of({}, {name: "-5"}).retention_ms == -1


def test_the_controller_forgets_a_broker_without_configs() -> None:
    seen = step(ClusterState(), events.BrokerConfigsSeen("1", {LEADER_RATE: "5"})).state
    assert seen.broker_configs == {"1": {LEADER_RATE: "5"}}
    assert step(seen, events.BrokerConfigsSeen("1", {})).state.broker_configs == {}


def test_the_controller_keeps_configs_of_groups_apart() -> None:
    configs = {"consumer.session.timeout.ms": "50000"}
    seen = step(ClusterState(), events.EntityConfigsSeen("groups/etl", configs)).state
    assert (seen.entity_configs, seen.broker_configs) == ({"groups/etl": configs}, {})
    assert step(seen, events.EntityConfigsSeen("groups/etl", {})).state.entity_configs == {}


@pytest.mark.parametrize("entity", ["7", "<default>"])
def test_unclean_elections_begin_when_the_controllers_config_allows_them(entity: str) -> None:
    waiting = partition(0, 1, 2, leader=-1, isr=(2,))
    state = ClusterState(brokers(1), {"t": topic("t", waiting)}, controller_id=7)
    others = events.BrokerConfigsSeen("8", {UNCLEAN: "true"})
    assert step(state, others).effects == ()
    elected = step(state, events.BrokerConfigsSeen(entity, {UNCLEAN: "true"}))
    assert [effect.state.leader for effect in elected.effects] == [1]  # type: ignore[union-attr]
    assert unclean_default(elected.state)
    refused = step(elected.state, events.BrokerConfigsSeen(entity, {UNCLEAN: "perhaps"}))
    assert not unclean_default(refused.state)


LISTENERS_OWN = "listener.name.clients.max.connections"


@pytest.mark.parametrize("for_all", [False, True])
def test_a_listener_may_have_limits_of_its_own(for_all: bool) -> None:
    check_broker_configs({LISTENERS_OWN: "5"}, for_all=for_all)
    assert valid_configs({LISTENERS_OWN: "5"}) == {LISTENERS_OWN: "5"}
    assert valid_configs({LISTENERS_OWN: "many"}) == {}
    with pytest.raises(KafkaError) as refused:
        check_broker_configs({LISTENERS_OWN: "many"}, for_all=for_all)
    assert refused.value.code == ErrorCode.invalid_request
    assert LISTENERS_OWN in str(refused.value)
