"""A control plane over a ZooKeeper in memory, and what goes wrong beside it."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from local_cluster.clock import SystemClock
from local_cluster.controller import znodes
from local_cluster.controller.control_plane import ControlPlane
from local_cluster.controller.coordination import Create, ZkOp
from local_cluster.controller.metadata_cache import Changes, MetadataCache
from local_cluster.controller.model import ALL_WELL
from local_cluster.controller.topic_requests import TopicSpec
from local_cluster.settings import BrokerSettings, Listener

from .fake_zookeeper import FakeCoordination, FakeZooKeeper

EVENTUALLY_SECONDS = 5.0


class Member:
    """A control plane with what it changed."""

    def __init__(self, server: FakeZooKeeper, broker_id: int = 1, **config: str) -> None:
        self.report = ALL_WELL
        self.coordination = FakeCoordination(server)
        self.cache = MetadataCache()
        self.changes: list[Changes] = []
        ids = itertools.count(1)
        self.plane = ControlPlane(
            BrokerSettings(
                cluster="c",
                broker_id=broker_id,
                rack=f"r{broker_id}",
                listeners=(Listener(name="P", host="127.0.0.1", port=0),),
                inter_broker_listener="P",
                zookeeper_connect="unused",
                zookeeper_session_timeout_ms=100,
                log_dirs=("unused",),
                ready_file="unused",
                config={key.replace("_", "."): value for key, value in config.items()},
            ),
            SystemClock(),
            self.cache,
            self.changes.append,
            bound_ports={"P": 1},
            coordination=self.coordination,
            new_uuid=lambda: uuid.UUID(int=next(ids)),
            report=lambda: self.report,
        )

    async def create(self, name: str, partitions: int = 1) -> None:
        (created,) = await self.plane.create_topics([TopicSpec(name=name, partitions=partitions)])
        assert created.error is None

    def leader(self, name: str, index: int = 0) -> tuple[int, int]:
        state = self.cache.topics[name].partitions[index]
        return state.leader, state.leader_epoch


async def eventually(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(EVENTUALLY_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


def dead_broker(server: FakeZooKeeper, broker_id: int) -> int:
    """Register a broker of a session of its own, which is returned."""
    payload = znodes.encode_broker(
        [("P", "127.0.0.1", 1)], {"P": "PLAINTEXT"}, rack=None, timestamp_ms=0
    )
    server.sessions += 1
    server.commit(
        [Create(znodes.broker_id_path(broker_id), payload, ephemeral=True)], server.sessions
    )
    return server.sessions


def fail_at_states(member: Member) -> list[ZkOp]:
    """Its next write of a partition's state raises what nobody foresaw; what it was."""
    failures: list[ZkOp] = []

    def fail(ops: Sequence[ZkOp]) -> None:
        if not failures and any(op.path.endswith("/state") for op in ops):
            failures.extend(ops)
            raise RuntimeError("a defect")

    member.coordination.before_commit = fail
    return failures
