"""SHELL: kazoo's client for one session, and the news that it died.

kazoo runs on threads of its own and tells nobody when one of them ends by itself: by an error that
it does not know (no descriptor is left while it connects, an answer that cannot be read, a sleep
that fails), or because the server refuses it for good. Such a client never connects again, and
waits for answers that nobody reads.
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

from local_cluster.controller.zk.coordination import CoordinationUnavailable
from local_cluster.controller.zk.session_file import Session

CONNECT_WAIT_MS_MAX: Final = 30_000
RECONNECT_DELAY_MS_MAX: Final = 1_000
CONNECT_POLL_MS: Final = 100
"""How often is looked whether waiting for a connection makes sense any more."""

log = logging.getLogger(__name__)


class ZkClient:
    """A client that is started once; `died` is called in one of its threads, at most once."""

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_ms: int,
        former: Session | None,
        died: Callable[[ZkClient], None],
    ) -> None:
        """`former` is a session to go on with."""
        self._hosts = hosts
        self._died = died
        self._is_closing = False
        self._is_dead = threading.Event()
        handler = SequentialThreadingHandler()
        spawn = handler.spawn

        def spawn_and_mind(run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            def minded() -> None:
                try:
                    run(*args, **kwargs)
                finally:
                    self._thread_ended()

            return spawn(minded)

        handler.spawn = spawn_and_mind
        self.kazoo = KazooClient(
            hosts,
            timeout=session_timeout_ms / 1000,
            client_id=former,
            handler=handler,
            connection_retry=KazooRetry(
                max_tries=-1, delay=0.05, max_jitter=0.5, max_delay=RECONNECT_DELAY_MS_MAX / 1000
            ),
        )

    @property
    def is_dead(self) -> bool:
        return self._is_dead.is_set()

    @property
    def session(self) -> Session | None:
        """The session, while it is connected."""
        connected = self.kazoo.client_id
        return None if connected is None else Session(*connected)

    def connect(self, is_unwanted: Callable[[], bool]) -> Session:
        """Start, and wait for the connection; what cannot be used is closed. Blocks.

        Raises CoordinationUnavailable where there is none in time, or `is_unwanted` says so.
        """
        deadline = time.monotonic() + CONNECT_WAIT_MS_MAX / 1000
        connected = self.kazoo.start_async()
        while not (self.is_dead or is_unwanted() or time.monotonic() > deadline):
            # It may be gone again by the time that it is looked at.
            if connected.wait(CONNECT_POLL_MS / 1000) and (session := self.session) is not None:
                return session
        self.close()
        raise CoordinationUnavailable(
            f"no ZooKeeper at {self._hosts} within {CONNECT_WAIT_MS_MAX} ms"
        )

    def close(self) -> None:
        """End the session where it is in reach, and the threads. Blocks."""
        self._is_closing = True
        try:
            self.kazoo.stop()
            self.kazoo.close()
        except Exception:  # kazoo raises what its sockets and threads do
            log.exception("a ZooKeeper client was not closed")

    def _thread_ended(self) -> None:
        if self._is_closing or self._is_dead.is_set():
            return
        self._is_dead.set()
        self._died(self)
