"""SHELL: `Coordination` on kazoo.

kazoo answers in its own threads; every result and every watch is posted to the loop. Requests are
sent in the order of the calls. The session is kept in a file (session_file.py). A broker that was
killed ends its former session when it starts again, and with it its own stale registration.

A client whose threads died (kazoo_client.py) is replaced by a new client with a new session. Its
pending requests raise CoordinationUnavailable. The owner sees the session LOST, every watch fired,
and then CONNECTED.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from kazoo import exceptions as zk
from kazoo.protocol.states import KazooState, WatchedEvent

from local_cluster.client.auth.zookeeper_security import (
    NO_ZOOKEEPER_USER,
    ZooKeeperSecurity,
)
from local_cluster.controller.zk.coordination import (
    CommitConflict,
    Conflict,
    CoordinationDenied,
    CoordinationUnavailable,
    SessionState,
    ZkOp,
    Znode,
)
from local_cluster.controller.zk.kazoo_client import RECONNECT_DELAY_MS_MAX, SessionClient
from local_cluster.controller.zk.kazoo_requests import send_multi, send_multi_read, to_znode
from local_cluster.controller.zk.kazoo_security import acl_of_new
from local_cluster.controller.zk.session_file import Session, SessionFile

log = logging.getLogger(__name__)

_CONFLICTS: Final[dict[type[Exception], Conflict]] = {
    zk.NodeExistsError: Conflict.NODE_EXISTS,
    zk.NoNodeError: Conflict.NO_NODE,
    zk.BadVersionError: Conflict.BAD_VERSION,
    zk.NotEmptyError: Conflict.NOT_EMPTY,
}
_DENIALS: Final = (zk.NoAuthError, zk.InvalidACLError, zk.AuthFailedError)
_NOT_THE_CAUSE: Final = (zk.RolledBackError, zk.RuntimeInconsistency)
_SESSION_STATES: Final = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}


class KazooCoordination:
    """One session of one broker."""

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_ms: int,
        session_directory: Path | None = None,
        security: ZooKeeperSecurity = NO_ZOOKEEPER_USER,
        sets_acl: bool = False,
    ) -> None:
        """`hosts` is "host:port[,host:port]/chroot"; a missing chroot is created.

        `sets_acl`: new znodes get Kafka's ACLs, which needs a user. Raises SecurityError.
        """
        assert security.authenticates or not sets_acl, "an ACL names a user"
        self._hosts = hosts
        self._security = security
        self._sets_acl = sets_acl
        self._session_timeout_ms = session_timeout_ms
        self._session_file = SessionFile(session_directory)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_path: Callable[[str | None], None] = _ignore
        self._on_session: Callable[[SessionState], None] = _ignore
        self._stopping = False
        self._session_id = 0
        self._reads_many = True
        self._unanswered: set[asyncio.Future[Any]] = set()
        self._client = self._new_client(None)
        self._replacing: asyncio.Task[None] | None = None

    def subscribe(
        self,
        on_path: Callable[[str | None], None],
        on_session: Callable[[SessionState], None],
    ) -> None:
        self._on_path = on_path
        self._on_session = on_session

    @property
    def session_id(self) -> int:
        """Id of the session that was connected last; it stays while the connection is lost."""
        return self._session_id

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._use(*await self._loop.run_in_executor(None, self._connect))
        while True:
            try:
                acl = acl_of_new("/", sets_acl=self._sets_acl)
                await self._await(self._client.kazoo.ensure_path_async("/", acl=acl))
                return
            except CoordinationDenied:
                raise
            except CoordinationUnavailable as error:
                # The connection was just lost; the client reconnects by itself.
                log.warning("cannot create the chroot of %s yet: %s", self._hosts, error)
                await asyncio.sleep(RECONNECT_DELAY_MS_MAX / 1000)

    async def stop(self) -> None:
        self._stopping = True
        if self._loop is None:
            return  # never started
        if self._replacing is not None:
            await self._replacing
        await self._loop.run_in_executor(None, self._client.close)
        self._session_file.remove()

    async def read(self, path: str, *, watch: bool = False) -> Znode | None:
        watcher = self._watched if watch else None
        try:
            payload, stat = await self._await(
                self._client.kazoo.get_async(path, watch=watcher), path
            )
        except zk.NoNodeError:
            if not watch:
                return None
            # `get` of a missing znode leaves no watch; `exists` does, and may find it meanwhile.
            stat = await self._await(self._client.kazoo.exists_async(path, watch=watcher))
            return None if stat is None else await self.read(path, watch=True)
        return to_znode(payload, stat)

    async def read_many(self, paths: Sequence[str]) -> list[Znode | None]:
        if self._reads_many:
            try:
                found: list[Znode | None] = await self._await(
                    send_multi_read(self._client.kazoo, paths)
                )
                return found
            except zk.UnimplementedError:
                log.warning("ZooKeeper is older than 3.6: a controller takes longer to start")
                self._reads_many = False
        return await asyncio.gather(*map(self.read, paths))

    async def children(self, path: str, *, watch: bool = False) -> tuple[str, ...]:
        watcher = self._watched if watch else None
        try:
            return tuple(
                await self._await(self._client.kazoo.get_children_async(path, watch=watcher), path)
            )
        except zk.NoNodeError:
            return ()

    async def commit(self, ops: Sequence[ZkOp]) -> tuple[int, ...]:
        results = await self._await(send_multi(self._client.kazoo, ops, sets_acl=self._sets_acl))
        for index, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(result, _NOT_THE_CAUSE):
                if isinstance(result, _DENIALS):
                    raise CoordinationDenied(ops[index].path)
                conflict = _CONFLICTS.get(type(result), Conflict.OTHER)
                raise CommitConflict(index, ops[index], conflict)
        return tuple(getattr(result, "version", 0) for result in results)

    # -- kazoo's threads --------------------------------------------------------------------

    def _watched(self, event: WatchedEvent) -> None:
        self._post(self._on_path, event.path)

    def _session_changed(self, client: SessionClient, state: str) -> None:
        session = client.session if state == KazooState.CONNECTED else None
        if session is not None:
            self._session_file.write(session)
        self._post(self._session_is, client, _SESSION_STATES[state], session)

    def _client_died(self, client: SessionClient) -> None:
        if self._loop is not None:
            self._post(self._replace, client)

    def _post(self, function: Callable[..., None], *arguments: Any) -> None:
        assert self._loop is not None
        if self._stopping or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(function, *arguments)

    # -- session ----------------------------------------------------------------------------

    def _new_client(self, former: Session | None) -> SessionClient:
        return SessionClient(
            self._hosts,
            session_timeout_ms=self._session_timeout_ms,
            security=self._security,
            former=former,
            died=self._client_died,
        )

    def _connect(self) -> tuple[SessionClient, Session]:
        """Return a client with a new session. Blocks. Raises CoordinationUnavailable."""
        former = self._session_file.read()
        if former is not None:
            client = self._new_client(former)
            # Without a connection the file stays, for the next attempt to end the session.
            if client.connect(lambda: self._stopping).id == former.id:
                log.info("ending session %#x of the former process of this broker", former.id)
            # If the server had ended it, it gave us a new session: close that as well.
            client.close()
        client = self._new_client(None)
        session = client.connect(lambda: self._stopping)
        self._session_file.write(session)
        return client, session

    def _use(self, client: SessionClient, session: Session) -> None:
        self._client = client
        self._session_id = session.id
        client.kazoo.add_listener(functools.partial(self._session_changed, client))
        if client.is_dead:
            self._replace(client)

    def _session_is(
        self, client: SessionClient, state: SessionState, session: Session | None
    ) -> None:
        if client is not self._client:
            return
        if session is not None:
            self._session_id = session.id
        self._on_session(state)

    def _replace(self, client: SessionClient) -> None:
        if client is self._client and self._replacing is None and not self._stopping:
            log.error("the ZooKeeper client died; this broker rejoins with a new client")
            self._replacing = asyncio.create_task(self._rejoin(), name="new ZooKeeper client")

    async def _rejoin(self) -> None:
        """Close the dead client, and connect a new one, with retries."""
        assert self._loop is not None
        dead = self._client
        self._on_session(SessionState.LOST)
        await self._loop.run_in_executor(None, dead.close)
        while not self._stopping:
            try:
                connected = await self._loop.run_in_executor(None, self._connect)
                break
            except CoordinationUnavailable as error:
                log.warning("no new ZooKeeper client yet: %s", error)
            except Exception:
                # Outermost handler: if this task ended, the broker would never rejoin.
                log.exception("no new ZooKeeper client yet")
            await asyncio.sleep(RECONNECT_DELAY_MS_MAX / 1000)
        else:
            return
        self._replacing = None
        self._use(*connected)
        for future in tuple(self._unanswered):
            if not future.done():
                future.set_exception(CoordinationUnavailable("the client of this request died"))
        self._on_path(None)
        self._on_session(SessionState.CONNECTED)

    # -- results ----------------------------------------------------------------------------

    async def _await(self, result: Any, path: str | None = None) -> Any:
        """Return the value of a kazoo result. Raises kazoo's ZookeeperErrors, and
        CoordinationUnavailable if the connection was lost or ZooKeeper denied the request."""
        assert self._loop is not None
        future: asyncio.Future[Any] = self._loop.create_future()
        self._unanswered.add(future)
        result.rawlink(functools.partial(self._answered, future))
        try:
            return await future
        except (
            zk.ConnectionLoss,
            zk.ConnectionClosedError,
            zk.SessionExpiredError,
            zk.OperationTimeoutError,
        ) as error:
            raise CoordinationUnavailable(str(error) or type(error).__name__) from error
        except _DENIALS as error:
            raise CoordinationDenied(path) from error
        finally:
            self._unanswered.discard(future)

    def _answered(self, future: asyncio.Future[Any], result: Any) -> None:
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_settle, future, result)


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if result.exception is None:
        future.set_result(result.value)
    else:
        future.set_exception(result.exception)


def _ignore(_: Any) -> None:
    return
