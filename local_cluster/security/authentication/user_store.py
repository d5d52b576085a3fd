"""SHELL: the SCRAM users in ZooKeeper, followed into a read model (KIP-84, `/config/users/NAME`).

Every user znode is watched, so that a changed password holds as soon as the session reports it, and
a login never waits for ZooKeeper. While ZooKeeper does not answer, the last users stay.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping

from local_cluster.client.auth.scram import HASHES
from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.config_znodes import decode_config
from local_cluster.controller.zk.bulk_reads import gather_bounded
from local_cluster.controller.zk.coordination import (
    Coordination,
    CoordinationUnavailable,
    SessionState,
)
from local_cluster.controller.zk.followed_znodes import EVERYTHING, FollowedZnodes
from local_cluster.security.authentication.scram_credentials import (
    ScramCredential,
    decode_credential,
)

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
        self._followed = FollowedZnodes("SCRAM users", self._read)

    @property
    def users(self) -> Mapping[str, Credentials]:
        """The users that have at least one credential, by name."""
        return self._users

    def find(self, mechanism: str, username: str) -> ScramCredential | None:
        """Return a credential, None if there is none."""
        return self._users.get(username, {}).get(mechanism)

    async def start(self) -> None:
        """Read the users, and follow them. Waits until ZooKeeper answers."""
        await self._followed.start()

    async def stop(self) -> None:
        """Follow no more."""
        await self._followed.stop()

    async def reload(self, username: str) -> None:
        """Read a user that this broker has just changed. A failure is repaired by the watch."""
        with contextlib.suppress(CoordinationUnavailable):
            async with self._followed.lock:
                await self._read_user(znode_paths.user_config_path(username))

    # -- events -----------------------------------------------------------------------------

    def path_changed(self, path: str | None) -> None:
        """A watch fired; None for all of them."""
        if path is None or path == znode_paths.USER_CONFIGS:
            self._followed.mark(EVERYTHING)
        elif path in self._watched:
            self._followed.mark(path)

    def session_changed(self, state: SessionState) -> None:
        """Watches of a lost session are gone."""
        self._followed.session_changed(state)

    # -- inside -----------------------------------------------------------------------------

    async def _read(self, changed: set[str | None]) -> None:
        paths = {path for path in changed if path is not EVERYTHING}
        if EVERYTHING in changed:
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
