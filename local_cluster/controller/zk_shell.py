"""SHELL: `Coordination` on kazoo, whose threads never touch anything of ours.

kazoo answers in its own threads; every answer and every watch is posted to the loop. Requests go
out in the order of the calls. The session's id and password are kept in the broker's log
directory (mode 0600): a broker that was killed ends its former session when it comes back, and so
its own stale registration, instead of waiting until the session times out. The caller holds the
lock of the log directory, so that the former owner is known to be dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from kazoo import exceptions as zk
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState, WatchedEvent
from kazoo.retry import KazooRetry

from local_cluster.controller.coordination import (
    CommitConflict,
    Conflict,
    CoordinationUnavailable,
    SessionState,
    ZkOp,
    Znode,
)
from local_cluster.controller.zk_requests import send_multi, send_multi_read, to_znode

log = logging.getLogger(__name__)

CONNECT_WAIT_MS_MAX: Final = 30_000
RECONNECT_DELAY_MS_MAX: Final = 1_000
SESSION_FILE: Final = "zookeeper-session.json"

_CONFLICTS: Final[dict[type[Exception], Conflict]] = {
    zk.NodeExistsError: Conflict.NODE_EXISTS,
    zk.NoNodeError: Conflict.NO_NODE,
    zk.BadVersionError: Conflict.BAD_VERSION,
    zk.NotEmptyError: Conflict.NOT_EMPTY,
}
_NOT_THE_CAUSE: Final = (zk.RolledBackError, zk.RuntimeInconsistency)
_SESSION_STATES: Final = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}


class KazooCoordination:
    """One session of one broker."""

    def __init__(
        self, hosts: str, *, session_timeout_ms: int, session_directory: Path | None = None
    ) -> None:
        """`hosts` is "host:port[,host:port]/chroot"; the chroot is created where absent."""
        self._hosts = hosts
        self._session_timeout_ms = session_timeout_ms
        self._session_file = session_directory and session_directory / SESSION_FILE
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_path: Callable[[str | None], None] = _ignore
        self._on_session: Callable[[SessionState], None] = _ignore
        self._stopping = False
        self._session_id = 0
        self._reads_many = True
        self._client = self._new_client(None)

    def subscribe(
        self,
        on_path: Callable[[str | None], None],
        on_session: Callable[[SessionState], None],
    ) -> None:
        self._on_path = on_path
        self._on_session = on_session

    @property
    def session_id(self) -> int:
        """Of the session that was connected last; it stays while the connection is away."""
        return self._session_id

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._session_id = await self._loop.run_in_executor(None, self._connect)
        self._client.add_listener(self._session_changed)
        while True:
            try:
                await self._await(self._client.ensure_path_async("/"))
                return
            except CoordinationUnavailable as error:
                # It was there a moment ago, and the client connects again by itself.
                log.warning("the chroot of %s is not made yet: %s", self._hosts, error)
                await asyncio.sleep(RECONNECT_DELAY_MS_MAX / 1000)

    async def stop(self) -> None:
        self._stopping = True
        if self._loop is None:
            return  # never started
        await self._loop.run_in_executor(None, self._close)

    async def read(self, path: str, *, watch: bool = False) -> Znode | None:
        watcher = self._watched if watch else None
        try:
            payload, stat = await self._await(self._client.get_async(path, watch=watcher))
        except zk.NoNodeError:
            if not watch:
                return None
            # `get` of an absent znode leaves no watch; `exists` does, and may find it by now.
            stat = await self._await(self._client.exists_async(path, watch=watcher))
            return None if stat is None else await self.read(path, watch=True)
        return to_znode(payload, stat)

    async def read_many(self, paths: Sequence[str]) -> list[Znode | None]:
        if self._reads_many:
            try:
                found: list[Znode | None] = await self._await(send_multi_read(self._client, paths))
                return found
            except zk.UnimplementedError:
                log.warning("this ZooKeeper is older than 3.6: a controller's start takes longer")
                self._reads_many = False
        return await asyncio.gather(*map(self.read, paths))

    async def children(self, path: str, *, watch: bool = False) -> tuple[str, ...]:
        watcher = self._watched if watch else None
        try:
            return tuple(await self._await(self._client.get_children_async(path, watch=watcher)))
        except zk.NoNodeError:
            return ()

    async def commit(self, ops: Sequence[ZkOp]) -> tuple[int, ...]:
        results = await self._await(send_multi(self._client, ops))
        for index, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(result, _NOT_THE_CAUSE):
                conflict = _CONFLICTS.get(type(result), Conflict.OTHER)
                raise CommitConflict(index, ops[index], conflict)
        return tuple(getattr(result, "version", 0) for result in results)

    # -- kazoo's threads --------------------------------------------------------------------

    def _watched(self, event: WatchedEvent) -> None:
        self._post(self._on_path, event.path)

    def _session_changed(self, state: str) -> None:
        session_id = self._save_session() if state == KazooState.CONNECTED else None
        self._post(self._session_is, _SESSION_STATES[state], session_id)

    def _post(self, function: Callable[..., None], *arguments: Any) -> None:
        assert self._loop is not None
        if self._stopping or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(function, *arguments)

    def _session_is(self, state: SessionState, session_id: int | None) -> None:
        if session_id is not None:
            self._session_id = session_id
        self._on_session(state)

    # -- session ----------------------------------------------------------------------------

    def _new_client(self, client_id: tuple[int, bytes] | None) -> KazooClient:
        return KazooClient(
            self._hosts,
            timeout=self._session_timeout_ms / 1000,
            client_id=client_id,
            connection_retry=KazooRetry(
                max_tries=-1, delay=0.05, max_jitter=0.5, max_delay=RECONNECT_DELAY_MS_MAX / 1000
            ),
        )

    def _connect(self) -> int:
        former = self._read_session()
        if former is not None:
            self._client = self._new_client(former)
            if self._await_connection() == former[0]:
                log.info("ending session %#x of this broker's former run", former[0])
            # Also where the server had ended it and gave us a new one: one way to begin.
            self._client.stop()
            self._client.close()
            self._client = self._new_client(None)
        self._await_connection()
        return self._save_session()

    def _await_connection(self) -> int:
        """The id of the session that is connected. Raises CoordinationUnavailable."""
        event = self._client.start_async()
        if not event.wait(CONNECT_WAIT_MS_MAX / 1000):
            # The session file stays: the next attempt still has that session to end.
            self._client.stop()
            self._client.close()
            raise CoordinationUnavailable(
                f"no ZooKeeper at {self._hosts} within {CONNECT_WAIT_MS_MAX} ms"
            )
        client_id = self._client.client_id
        return client_id[0] if client_id else 0

    def _close(self) -> None:
        self._client.stop()
        self._client.close()
        if self._session_file is not None:
            # What stays on a disk that failed names a session that is over by now.
            with contextlib.suppress(OSError):
                self._session_file.unlink(missing_ok=True)

    def _read_session(self) -> tuple[int, bytes] | None:
        if self._session_file is None:
            return None
        try:
            saved = json.loads(self._session_file.read_bytes())
            return int(saved["session_id"]), bytes.fromhex(saved["password"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            log.warning("%s is unreadable and ignored", self._session_file)
            return None

    def _save_session(self) -> int:
        """Keep the session for the next run to end it; its id."""
        client_id = self._client.client_id
        if client_id is None:
            return 0  # lost again already; the next session says so
        session_id: int = client_id[0]
        if self._session_file is None:
            return session_id
        password: bytes = client_id[1]
        body = json.dumps({"version": 1, "session_id": session_id, "password": password.hex()})
        temporary = self._session_file.with_suffix(".tmp")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(body)
            temporary.replace(self._session_file)
        except OSError as error:
            # On a full disk the broker still serves reads; its next start waits for the session
            # to expire instead of ending it.
            log.warning("the session cannot be kept for the next start: %s", error)
        return session_id

    # -- answers ----------------------------------------------------------------------------

    async def _await(self, result: Any) -> Any:
        """The value of a kazoo result. Raises kazoo's ZookeeperErrors, and
        CoordinationUnavailable where the connection was lost."""
        assert self._loop is not None
        future: asyncio.Future[Any] = self._loop.create_future()
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
