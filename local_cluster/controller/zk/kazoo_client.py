"""SHELL: kazoo's client for one session, and a report when it dies.

kazoo runs its own threads and does not report when one of them ends. A thread ends by an error that
kazoo does not handle: no descriptor left while it connects, an unreadable response, a failing
sleep. It also ends when the server refuses the client for good. Such a client never connects again,
and its pending requests never complete.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.retry import KazooRetry

from local_cluster.client.auth.zookeeper_security import ZooKeeperSecurity
from local_cluster.controller.zk.coordination import CoordinationUnavailable
from local_cluster.controller.zk.kazoo_security import client_options
from local_cluster.controller.zk.session_file import Session

CONNECT_WAIT_MS_MAX: Final = 30_000
RECONNECT_DELAY_MS_MAX: Final = 1_000
CONNECT_POLL_MS: Final = 100
"""How often a wait for a connection checks whether it should give up."""

log = logging.getLogger(__name__)


class SessionClient:
    """A client that is started once; `died` is called in one of its threads, at most once."""

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_ms: int,
        security: ZooKeeperSecurity,
        former: Session | None,
        died: Callable[[SessionClient], None],
    ) -> None:
        """`former` is a session to resume. Raises SecurityError."""
        self._hosts = hosts
        self._died = died
        self._is_closing = False
        self._is_dead = threading.Event()
        handler = SequentialThreadingHandler()
        spawn = handler.spawn

        def spawn_watched(run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            def watched() -> None:
                try:
                    run(*args, **kwargs)
                finally:
                    self._thread_ended()

            return spawn(watched)

        handler.spawn = spawn_watched
        self.kazoo = KazooClient(
            hosts,
            timeout=session_timeout_ms / 1000,
            client_id=former,
            handler=handler,
            connection_retry=KazooRetry(
                max_tries=-1, delay=0.05, max_jitter=0.5, max_delay=RECONNECT_DELAY_MS_MAX / 1000
            ),
            **client_options(security),
        )

    @property
    def is_dead(self) -> bool:
        return self._is_dead.is_set()

    @property
    def session(self) -> Session | None:
        """The session, None while it is not connected."""
        connected = self.kazoo.client_id
        return None if connected is None else Session(*connected)

    def connect(self, is_unwanted: Callable[[], bool]) -> Session:
        """Start, and wait for the connection; close the client if there is none. Blocks.

        Raises CoordinationUnavailable on timeout, or once `is_unwanted` returns True.
        """
        deadline = time.monotonic() + CONNECT_WAIT_MS_MAX / 1000
        connected = self.kazoo.start_async()
        while not (self.is_dead or is_unwanted() or time.monotonic() > deadline):
            # The connection may already be lost again.
            if connected.wait(CONNECT_POLL_MS / 1000) and (session := self.session) is not None:
                return session
        self.close()
        raise CoordinationUnavailable(
            f"no ZooKeeper answered at {self._hosts} within {CONNECT_WAIT_MS_MAX} ms"
        )

    def close(self) -> None:
        """End the session if ZooKeeper is reachable, and the threads. Blocks."""
        self._is_closing = True
        try:
            self.kazoo.stop()
            self.kazoo.close()
        except Exception:  # kazoo passes on any error of its sockets and threads
            log.exception("cannot close a ZooKeeper client")

    def _thread_ended(self) -> None:
        if self._is_closing or self._is_dead.is_set():
            return
        self._is_dead.set()
        self._died(self)
