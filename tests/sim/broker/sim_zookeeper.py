"""ZooKeeper for simulations: sessions time out; responses and watches come late or never."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Sequence
from random import Random

from local_cluster.controller.model import topic_znodes, znode_paths
from local_cluster.controller.zk.coordination import (
    CoordinationUnavailable,
    Create,
    SessionState,
    SetPayload,
    ZkOp,
    Znode,
)
from tests.sim.broker.sim_process import OUTSIDE
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeCoordination, FakeZooKeeper

SESSION_SECONDS = 3.0
CONNECT_SECONDS_MAX = 10.0
PING_SECONDS = 0.5
LATE_WATCH_CHANCE = 0.3


class SimCoordination(FakeCoordination):
    """One broker's client, as `Coordination`.

    The server ends a session without a ping for SESSION_SECONDS. As ZooKeeper's clients do, the
    client learns of it when it reaches the server again.
    """

    def __init__(self, server: FakeZooKeeper, random: Random) -> None:
        super().__init__(server)
        self.context = contextvars.copy_context()
        """The context of the client's process."""
        self._random = random
        self._heard_at = 0.0
        self._is_expired = True
        self._is_suspended = False
        self.missed_watch = False
        """Whether a watch fired while this client was unreachable."""
        self._is_dead = False
        self._pinging: asyncio.Task[None] | None = None

    # -- faults -----------------------------------------------------------------------------

    def die(self) -> None:
        """The process died; its session stays until it times out."""
        self._is_dead = True
        self.cut_off = True
        self.fall_silent()

    def fall_silent(self) -> None:
        """The process died or was stopped: the server ends its session after the timeout."""
        loop = asyncio.get_running_loop()
        loop.call_at(
            max(loop.time(), self._heard_at + SESSION_SECONDS),
            self._expire_if_silent,
            self._heard_at,
            context=OUTSIDE.copy(),
        )

    def end_session(self) -> None:
        """The server ends the session; the client learns of it with its next ping."""
        self._expire()

    @property
    def is_healthy(self) -> bool:
        """Whether it has a session and reaches ZooKeeper."""
        return not self.cut_off and not self._is_expired

    def _expire_if_silent(self, since: float) -> None:
        if self._heard_at == since:
            self._expire()

    def _expire(self) -> None:
        if not self._is_expired:
            self._is_expired = True
            self.server.expire(self.session_id)

    # -- the client -------------------------------------------------------------------------

    async def start(self) -> None:
        waited = 0.0
        while self.cut_off:
            await asyncio.sleep(PING_SECONDS)
            waited += PING_SECONDS
            if waited > CONNECT_SECONDS_MAX:
                raise CoordinationUnavailable("no connection")
        self._connect()
        self._pinging = asyncio.get_running_loop().create_task(self._ping())

    async def stop(self) -> None:
        if self._pinging is not None:
            self._pinging.cancel()
        if self.is_healthy:
            self._expire()

    def _connect(self) -> None:
        self.new_session()
        self._is_expired = False
        self._heard_at = asyncio.get_running_loop().time()

    async def _ping(self) -> None:
        """Run the session, on both sides."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(PING_SECONDS)
            if self.cut_off:
                if not self._is_suspended and not self._is_dead:
                    self._is_suspended = True
                    self.on_session(SessionState.SUSPENDED)
                if loop.time() - self._heard_at > SESSION_SECONDS:
                    self._expire()
                continue
            if self._is_expired:
                self.on_session(SessionState.LOST)
                self._connect()
                self._resume()
            elif self._is_suspended or self.missed_watch:
                self._resume()
            self._heard_at = loop.time()

    def _resume(self) -> None:
        self._is_suspended = False
        self.missed_watch = False
        self.on_session(SessionState.CONNECTED)
        self.on_path(None)

    async def read(self, path: str, *, watch: bool = False) -> Znode | None:
        await self._there()
        answer = await super().read(path, watch=watch)
        await self._back()
        return answer

    async def read_many(self, paths: Sequence[str]) -> list[Znode | None]:
        await self._there()
        answer = await super().read_many(paths)
        await self._back()
        return answer

    async def children(self, path: str, *, watch: bool = False) -> tuple[str, ...]:
        await self._there()
        answer = await super().children(path, watch=watch)
        await self._back()
        return answer

    async def commit(self, ops: Sequence[ZkOp]) -> tuple[int, ...]:
        await self._there()
        answer = await super().commit(ops)
        await self._back()
        return answer

    async def _there(self) -> None:
        await asyncio.sleep(self._random.uniform(0.0002, 0.004))
        if self.cut_off or self._is_expired:
            raise CoordinationUnavailable("cut off")

    async def _back(self) -> None:
        """A response is lost if the connection broke meanwhile."""
        await asyncio.sleep(self._random.uniform(0.0002, 0.004))
        if self.cut_off or self._is_expired:
            raise CoordinationUnavailable("the response was lost")


class SimZooKeeper(FakeZooKeeper):
    """Watches arrive late, and never at a client that is cut off."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self.unfenced: list[str] = []
        """State writes of another controller epoch than the present one."""

    def commit(self, ops: Sequence[ZkOp], session_id: int) -> tuple[int, ...]:
        versions = super().commit(ops, session_id)
        epoch = self.tree.get(znode_paths.CONTROLLER_EPOCH)
        for op in ops:
            if isinstance(op, Create | SetPayload) and op.path.endswith("/state"):
                state = topic_znodes.decode_state(op.payload)
                if epoch is None or str(state.controller_epoch).encode() != epoch.payload:
                    self.unfenced.append(f"{op.path}: {state}")
        return versions

    def fire(self, paths: Sequence[str]) -> None:
        loop = asyncio.get_running_loop()
        for path in dict.fromkeys(paths):
            clients = self.watches.pop(path, set())
            for client in sorted(clients, key=lambda client: client.session_id):
                assert isinstance(client, SimCoordination)
                late = self._random.random() < LATE_WATCH_CHANCE
                seconds = self._random.uniform(0.0002, 3.0 if late else 0.01)
                loop.call_later(seconds, _notify, client, path, context=client.context.copy())


def _notify(client: SimCoordination, path: str) -> None:
    if client.cut_off:
        client.missed_watch = True
    else:
        client.on_path(path)
