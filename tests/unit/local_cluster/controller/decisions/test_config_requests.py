"""What may be changed about a topic's configs, and how that reaches ZooKeeper."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from local_cluster.controller.decisions.config_requests import (
    ConfigChange,
    changed_configs,
    replaced_configs,
    topic_rules,
)
from local_cluster.controller.member.config_writer import write_topic_configs
from local_cluster.controller.model import znodes
from local_cluster.controller.zk.coordination import ZkOp
from local_cluster.wire.constants import AlterOperation
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeCoordination, FakeZooKeeper

SET, DELETE = AlterOperation.SET, AlterOperation.DELETE
APPEND, SUBTRACT = AlterOperation.APPEND, AlterOperation.SUBTRACT
RULES = topic_rules({})


@pytest.mark.parametrize(
    ("change", "after"),
    [
        (ConfigChange("segment.ms", SET, "9"), {"retention.ms": "5", "segment.ms": "9"}),
        (ConfigChange("retention.ms", SET, "6"), {"retention.ms": "6"}),
        (ConfigChange("retention.ms", DELETE, None), {}),
        (ConfigChange("segment.ms", DELETE, "whatever"), {"retention.ms": "5"}),
        (
            ConfigChange("cleanup.policy", APPEND, "compact"),
            {"retention.ms": "5", "cleanup.policy": "delete,compact"},
        ),
        (
            ConfigChange("cleanup.policy", APPEND, "delete"),
            {"retention.ms": "5", "cleanup.policy": "delete"},
        ),
    ],
)
def test_changes(change: ConfigChange, after: dict[str, str]) -> None:
    before = {"retention.ms": "5"}
    assert changed_configs(before, [change], RULES) == after
    assert before == {"retention.ms": "5"}


def test_replacing_forgets_what_is_not_named() -> None:
    assert replaced_configs([ConfigChange("segment.ms", SET, "9")], RULES) == {"segment.ms": "9"}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([ConfigChange("retention.ms", SET, "1")] * 2, ErrorCode.invalid_request),
        ([ConfigChange("retention.ms", SET, None)], ErrorCode.invalid_request),
        ([ConfigChange("retention.ms", 4, "1")], ErrorCode.invalid_request),
        ([ConfigChange("retention.ms", APPEND, "1")], ErrorCode.invalid_config),
        ([ConfigChange("retention.ms", SUBTRACT, "1")], ErrorCode.invalid_config),
        ([ConfigChange("no.such", APPEND, "1")], ErrorCode.invalid_config),
        ([ConfigChange("no.such", SET, "1")], ErrorCode.invalid_config),
        ([ConfigChange("cleanup.policy", SET, "keep")], ErrorCode.invalid_config),
    ],
)
def test_refusals(changes: Sequence[ConfigChange], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        changed_configs({}, changes, RULES)
    assert refused.value.code == code


@pytest.fixture
def server() -> FakeZooKeeper:
    server = FakeZooKeeper()
    server.write(znodes.topic_path("t"), b"{}")
    server.write("/config/topics")
    server.write(znodes.CONFIG_CHANGES)
    server.write("/admin/delete_topics")
    return server


async def test_configs_and_notification_are_one_commit(server: FakeZooKeeper) -> None:
    written = await write_topic_configs(
        FakeCoordination(server), "t", lambda _: {"segment.ms": "9"}, validate_only=False
    )
    assert written == {"segment.ms": "9"}
    (name,) = server.child_names(znodes.CONFIG_CHANGES)
    assert name.removeprefix("config_change_").isdigit()
    payload = server.tree[f"{znodes.CONFIG_CHANGES}/{name}"].payload
    assert payload == b'{"version":2,"entity_path":"topics/t"}', "as Kafka writes it"
    stored = server.tree[znodes.topic_config_path("t")].payload
    assert znodes.decode_config(stored) == {"segment.ms": "9"}


async def test_a_change_in_between_is_not_lost(server: FakeZooKeeper) -> None:
    server.write(znodes.topic_config_path("t"), znodes.encode_config({"retention.ms": "1"}))
    coordination = FakeCoordination(server)
    others = iter([{"retention.ms": "2"}])

    def overtake(ops: Sequence[ZkOp]) -> None:
        for configs in others:
            server.write(znodes.topic_config_path("t"), znodes.encode_config(configs))

    coordination.before_commit = overtake
    written = await write_topic_configs(
        coordination, "t", lambda now: {**now, "segment.ms": "9"}, validate_only=False
    )
    assert written == {"retention.ms": "2", "segment.ms": "9"}


@pytest.mark.parametrize("path", [znodes.topic_path("t"), None])
async def test_a_topic_that_goes_gets_no_configs(server: FakeZooKeeper, path: str | None) -> None:
    if path is None:
        server.write(znodes.delete_topic_path("t"))
    else:
        server.remove(path)
    with pytest.raises(KafkaError) as refused:
        await write_topic_configs(FakeCoordination(server), "t", lambda _: {}, validate_only=False)
    assert refused.value.code == ErrorCode.unknown_topic_or_partition
    assert znodes.topic_config_path("t") not in server.tree
