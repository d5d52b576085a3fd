"""A control plane over a ZooKeeper in memory, and faults beside it."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from local_cluster.clock import SystemClock
from local_cluster.controller.member.control_plane import ControlPlane
from local_cluster.controller.model import broker_znodes, znode_paths
from local_cluster.controller.model.cluster_image import ALL_WELL
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.controller.model.topic_requests import TopicSpec
from local_cluster.controller.zk.coordination import Create, ZkOp
from local_cluster.network import ConnectToPeer, connect_to_peer
from local_cluster.settings import BrokerSettings, Listener
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeCoordination, FakeZooKeeper

EVENTUALLY_SECONDS = 5.0


class Member:
    """A control plane and its changes. Its port is its broker id."""

    def __init__(
        self,
        server: FakeZooKeeper,
        broker_id: int = 1,
        connect: ConnectToPeer = connect_to_peer,
        /,
        **config: str,
    ) -> None:
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
            bound_ports={"P": broker_id},
            connect=connect,
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


class MemberNetwork:
    """A network: images reach the brokers in `members`, by their ports."""

    def __init__(self) -> None:
        self.members: dict[int, Member] = {}

    async def open(self, host: str, port: int) -> MemberConnection:
        if port not in self.members:
            raise KafkaError(ErrorCode.network_exception, "out of reach")
        return MemberConnection(self.members[port])


class MemberConnection:
    """A connection to a member, as `local_cluster.network.PeerConnection`; it answers at once."""

    def __init__(self, target: Member) -> None:
        self.is_closed = False
        self._target = target
        self._on_closed: Callable[[], None] = lambda: None

    def send(
        self, api: ApiKey, version: int, body: tuple[bytes, ...]
    ) -> Awaitable[tuple[memoryview, int]]:
        assert api is ApiKey.CLUSTER_DELTA
        answer: asyncio.Future[tuple[memoryview, int]] = asyncio.get_running_loop().create_future()
        answer.set_result((memoryview(self._target.plane.take_delta(b"".join(body))), 0))
        return answer

    def abort(self, reason: str) -> None:
        self.is_closed = True
        self._on_closed()

    def when_closed(self, callback: Callable[[], None]) -> None:
        self._on_closed = callback


async def eventually(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(EVENTUALLY_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


def dead_broker(server: FakeZooKeeper, broker_id: int) -> int:
    """Register a broker under a session of its own; return the session id."""
    payload = broker_znodes.encode_broker(
        [("P", "127.0.0.1", 1)], {"P": "PLAINTEXT"}, rack=None, timestamp_ms=0
    )
    server.sessions += 1
    server.commit(
        [Create(znode_paths.broker_id_path(broker_id), payload, ephemeral=True)], server.sessions
    )
    return server.sessions


def fail_at_states(member: Member) -> list[ZkOp]:
    """Make the next write of a partition state raise RuntimeError; return its operations."""
    failures: list[ZkOp] = []

    def fail(ops: Sequence[ZkOp]) -> None:
        if not failures and any(op.path.endswith("/state") for op in ops):
            failures.extend(ops)
            raise RuntimeError("a defect")

    member.coordination.before_commit = fail
    return failures
