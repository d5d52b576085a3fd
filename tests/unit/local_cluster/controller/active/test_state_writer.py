"""Writes of partition states: lost responses, conflicts."""

from __future__ import annotations

from typing import Any

import pytest

from local_cluster.controller.model import topic_znodes, znode_paths
from local_cluster.controller.zk.coordination import SetPayload, ZkOp
from local_cluster.wire.errors import KafkaError
from tests.unit.local_cluster.controller.member.control_plane_member import (
    Member,
    dead_broker,
    eventually,
)
from tests.unit.local_cluster.controller.samples import partition
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper


class TestStateWriter:
    async def test_a_state_write_whose_answer_was_lost_is_found_again(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        def writes_state(ops: Any) -> bool:
            return any(op.path.endswith("/state") for op in ops)

        member.coordination.lose_answer_of = writes_state
        with pytest.raises(KafkaError):
            await member.create("a")
        await eventually(lambda: "a" in member.cache.topics and member.leader("a") == (1, 0))
        assert server.tree[znode_paths.state_path("a", 0)].version == 0, "written once"

    async def test_one_conflicting_state_does_not_block_the_others(
        self, member: Member, server: FakeZooKeeper
    ) -> None:
        session = dead_broker(server, 2)
        await eventually(lambda: 2 in member.cache.brokers)
        server.write("/brokers/topics/a", b'{"version":1,"partitions":{"0":[2,1],"1":[2,1]}}')
        await eventually(lambda: "a" in member.cache.topics and member.leader("a") == (2, 0))

        def shrink_meanwhile(ops: list[ZkOp]) -> None:
            if not any(isinstance(op, SetPayload) for op in ops):
                return
            member.coordination.before_commit = lambda ops: None
            stored = partition(0, 2, 1, isr=(2, 1), epoch=3)
            payload = topic_znodes.encode_state(stored, controller_epoch=1)
            server.write(znode_paths.state_path("a", 0), payload)

        member.coordination.before_commit = shrink_meanwhile  # type: ignore[assignment]
        server.expire(session)
        await eventually(lambda: member.leader("a", 0) == (1, 4))
        assert member.leader("a", 1) == (1, 1)
