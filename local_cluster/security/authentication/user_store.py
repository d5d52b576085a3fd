"""SHELL: the SCRAM users in ZooKeeper, followed into a read model (KIP-84, `/config/users/NAME`).

Every user znode is watched, so that a changed password holds as soon as the session reports it, and
a login never waits for ZooKeeper. While ZooKeeper does not answer, the last users stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Final

from local_cluster.client.auth.scram import HASHES
from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.config_znodes import decode_config
from local_cluster.controller.zk.bulk_reads import gather_bounded
from local_cluster.controller.zk.coordination import (
    Coordination,
    CoordinationUnavailable,
    SessionState,
)
from local_cluster.security.authentication.scram_credentials import (
    ScramCredential,
    decode_credential,
)

RETRY_DELAY_MS: Final = 100

log = logging.getLogger(__name__)

Credentials = Mapping[str, ScramCredential]
"""By mechanism."""


class UserStore:
    """The users of one cluster, as one broker follows them."""

    def __init__(self, coordination: Coordination) -> None:
        self._coordination = coordination
        self._users: dict[str, Credentials] = {}
        self._watched: set[str] = set()
        """Paths of user znodes that are watched."""
        self._changed: set[str | None] = {None}
        """Paths to read; None for all of them."""
        self._due = asyncio.Event()
        self._lock = asyncio.Lock()
        """Held while reading, so that an older reading never replaces a newer one."""
        self._task: asyncio.Task[None] | None = None

    @property
    def users(self) -> Mapping[str, Credentials]:
        """The users that have at least one credential, by name."""
        return self._users

    def find(self, mechanism: str, username: str) -> ScramCredential | None:
        """Return a credential, None if there is none."""
        return self._users.get(username, {}).get(mechanism)

    async def start(self) -> None:
        """Read the users, and follow them. Waits until ZooKeeper answers."""
        while True:
            if await self._read_changed():
                break
            await asyncio.sleep(RETRY_DELAY_MS / 1000)
        self._task = asyncio.create_task(self._follow(), name="SCRAM users")

    async def stop(self) -> None:
        """Follow no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def reload(self, username: str) -> None:
        """Read a user that this broker has just changed. A failure is repaired by the watch."""
        with contextlib.suppress(CoordinationUnavailable):
            async with self._lock:
                await self._read_user(_path_of(znode_paths.sanitize(username)))

    # -- events -----------------------------------------------------------------------------

    def path_changed(self, path: str | None) -> None:
        """A watch fired; None for all of them."""
        if path is None or path == znode_paths.USER_CONFIGS or path in self._watched:
            self._changed.add(None if path == znode_paths.USER_CONFIGS else path)
            self._due.set()

    def session_changed(self, state: SessionState) -> None:
        """Watches of a lost session are gone."""
        self._changed.add(None)
        if state is SessionState.CONNECTED:
            self._due.set()

    # -- inside -----------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            if not await self._read_changed():
                await asyncio.sleep(RETRY_DELAY_MS / 1000)
                self._due.set()

    async def _read_changed(self) -> bool:
        """Read what changed. Return False if ZooKeeper did not answer; it stays due then."""
        changed, self._changed = self._changed, set()
        try:
            async with self._lock:
                await self._read(changed)
        except CoordinationUnavailable as error:
            self._changed |= changed
            log.warning("cannot read the SCRAM users yet: %s", error)
            return False
        return True

    async def _read(self, changed: set[str | None]) -> None:
        paths = {path for path in changed if path is not None}
        if None in changed:
            names = await self._coordination.children(znode_paths.USER_CONFIGS, watch=True)
            present = {_path_of(name) for name in names}
            paths |= present | self._watched
        await gather_bounded(sorted(paths), self._read_user)

    async def _read_user(self, path: str) -> None:
        znode = await self._coordination.read(path, watch=True)
        self._watched.add(path)
        entity = path.rpartition("/")[2]
        username = entity
        credentials: dict[str, ScramCredential] = {}
        try:
            username = znode_paths.desanitize(entity)
            config = {} if znode is None else decode_config(znode.payload)
            credentials = {
                mechanism: decode_credential(config[mechanism])
                for mechanism in HASHES
                if mechanism in config
            }
        except ValueError as error:
            log.error("user %r cannot log in, its znode is unreadable: %s", username, error)
        if credentials:
            self._users[username] = credentials
        else:
            self._users.pop(username, None)


def _path_of(entity: str) -> str:
    return f"{znode_paths.USER_CONFIGS}/{entity}"
