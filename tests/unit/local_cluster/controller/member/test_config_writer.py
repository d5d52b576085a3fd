"""Configs that any broker writes to ZooKeeper, with the change notification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from local_cluster.controller.decisions.dynamic_broker_configs import LEADER_RATE
from local_cluster.controller.member.config_writer import (
    write_broker_configs,
    write_topic_configs,
)
from local_cluster.controller.model import config_znodes, znode_paths
from local_cluster.controller.zk.coordination import ZkOp
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeCoordination, FakeZooKeeper


@pytest.fixture
def server() -> FakeZooKeeper:
    server = FakeZooKeeper()
    server.write(znode_paths.topic_path("t"), b"{}")
    server.write("/config/topics")
    server.write(znode_paths.CONFIG_CHANGES)
    server.write("/admin/delete_topics")
    return server


async def test_topic_configs_and_their_notification_are_one_commit(server: FakeZooKeeper) -> None:
    written = await write_topic_configs(
        FakeCoordination(server), "t", lambda _: {"segment.ms": "9"}, validate_only=False
    )
    assert written == {"segment.ms": "9"}
    (name,) = server.child_names(znode_paths.CONFIG_CHANGES)
    assert name.removeprefix("config_change_").isdigit()
    payload = server.tree[f"{znode_paths.CONFIG_CHANGES}/{name}"].payload
    assert payload == b'{"version":2,"entity_path":"topics/t"}', "as Kafka writes it"
    stored = server.tree[znode_paths.topic_config_path("t")].payload
    assert config_znodes.decode_config(stored) == {"segment.ms": "9"}


async def test_a_change_in_between_is_not_lost(server: FakeZooKeeper) -> None:
    server.write(
        znode_paths.topic_config_path("t"), config_znodes.encode_config({"retention.ms": "1"})
    )
    coordination = FakeCoordination(server)
    others = iter([{"retention.ms": "2"}])

    def overtake(ops: Sequence[ZkOp]) -> None:
        for configs in others:
            server.write(znode_paths.topic_config_path("t"), config_znodes.encode_config(configs))

    coordination.before_commit = overtake
    written = await write_topic_configs(
        coordination, "t", lambda now: {**now, "segment.ms": "9"}, validate_only=False
    )
    assert written == {"retention.ms": "2", "segment.ms": "9"}


@pytest.mark.parametrize("path", [znode_paths.topic_path("t"), None])
async def test_a_deleted_topic_gets_no_configs(server: FakeZooKeeper, path: str | None) -> None:
    if path is None:
        server.write(znode_paths.delete_topic_path("t"))
    else:
        server.remove(path)
    with pytest.raises(KafkaError) as refused:
        await write_topic_configs(FakeCoordination(server), "t", lambda _: {}, validate_only=False)
    assert refused.value.code == ErrorCode.unknown_topic_or_partition
    assert znode_paths.topic_config_path("t") not in server.tree


async def test_configs_that_cannot_be_read_are_not_overwritten(server: FakeZooKeeper) -> None:
    server.write(znode_paths.topic_config_path("t"), b"{")
    with pytest.raises(KafkaError) as refused:
        await write_topic_configs(FakeCoordination(server), "t", lambda _: {}, validate_only=False)
    assert refused.value.code == ErrorCode.unknown_server_error
    assert "unreadable" in refused.value.message
    assert server.tree[znode_paths.topic_config_path("t")].payload == b"{"


async def test_broker_configs_and_their_notification_are_one_commit() -> None:
    server = FakeZooKeeper()
    coordination = FakeCoordination(server)
    for path in znode_paths.PERSISTENT_PATHS:
        server.write(path)

    def plan(current: Mapping[str, str]) -> dict[str, str]:
        return {**current, LEADER_RATE: "5"}

    await write_broker_configs(coordination, "1", plan, validate_only=True)
    assert server.child_names(znode_paths.CONFIG_CHANGES) == ()
    await write_broker_configs(coordination, "1", plan, validate_only=False)
    stored = await coordination.read("/config/brokers/1")
    assert stored is not None
    assert config_znodes.decode_config(stored.payload) == {LEADER_RATE: "5"}
    (name,) = server.child_names(znode_paths.CONFIG_CHANGES)
    notice = await coordination.read(f"{znode_paths.CONFIG_CHANGES}/{name}")
    assert notice is not None
    assert config_znodes.decode_config_change(notice.payload) == ("brokers", "1")
