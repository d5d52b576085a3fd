"""SHELL: the quotas in ZooKeeper, followed into a read model.

Every znode that may have quotas is watched, also for what Kafka's tools of 3.9 write. A change
holds on every broker as soon as its session reports it. While ZooKeeper does not answer, the last
quotas stay.

Not here: the layout (entity.py), what quotas do (client_quotas.py).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.config_znodes import decode_config
from local_cluster.controller.zk.bulk_reads import gather_bounded
from local_cluster.controller.zk.coordination import (
    Coordination,
    CoordinationUnavailable,
    SessionState,
)
from local_cluster.controller.zk.followed_znodes import EVERYTHING, FollowedZnodes
from local_cluster.quotas.entity import CLIENTS_OF_USER, Entity, entity_at
from local_cluster.quotas.quota_keys import decode_values

ROOTS: Final = frozenset(
    {znode_paths.USER_CONFIGS, znode_paths.CLIENT_CONFIGS, znode_paths.ADDRESS_CONFIGS}
)

log = logging.getLogger(__name__)

Values = Mapping[str, float]
"""By quota key."""


class QuotaStore:
    """The quotas of one cluster, as one broker follows them."""

    def __init__(
        self, coordination: Coordination, *on_quotas: Callable[[Mapping[Entity, Values]], None]
    ) -> None:
        """Each of `on_quotas` gets all quotas after each change."""
        self._coordination = coordination
        self._on_quotas = on_quotas
        self._values: dict[str, tuple[Entity, Values]] = {}
        """By path, of entities that have any."""
        self.quotas: Mapping[Entity, Values] = {}
        """All quotas, as of the last complete reading."""
        self._children: dict[str, frozenset[str]] = {}
        """Paths of children by path, of each watched znode that may have some."""
        self._followed = FollowedZnodes("quotas", self._read)

    async def start(self) -> None:
        """Read the quotas, and follow them. Waits until ZooKeeper answers."""
        await self._followed.start()

    async def stop(self) -> None:
        """Follow no more."""
        await self._followed.stop()

    async def reload(self, paths: Iterable[str]) -> None:
        """Read entities that this broker has just changed. A failure is repaired by the watches."""
        with contextlib.suppress(CoordinationUnavailable):
            async with self._followed.lock:
                await self._read(set(paths))

    # -- events -----------------------------------------------------------------------------

    def path_changed(self, path: str | None) -> None:
        """A watch fired; None for all of them."""
        if path is None or _may_have_quotas(path) or _has_children(path):
            self._followed.mark(path)

    def session_changed(self, state: SessionState) -> None:
        """Watches of a lost session are gone."""
        self._followed.session_changed(state)

    # -- reading ----------------------------------------------------------------------------

    async def _read(self, changed: set[str | None]) -> None:
        """Read these paths, and all below them that were not known."""
        before = dict(self._values)
        due = {path for path in changed if path is not EVERYTHING}
        if EVERYTHING in changed:
            self._values.clear()
            self._children.clear()
            due = set(ROOTS)
        try:
            while due:
                await gather_bounded(filter(_may_have_quotas, due), self._read_entity)
                listed = await gather_bounded(filter(_has_children, due), self._read_children)
                due = {path for _, paths in listed for path in paths}
        except BaseException:
            # What was found and not read would be forgotten, and quotas must not vanish meanwhile.
            self._values = before
            self._followed.mark(EVERYTHING)
            raise
        if self._values != before:
            self.quotas = dict(self._values.values())
            for each in self._on_quotas:
                each(self.quotas)

    async def _read_entity(self, path: str) -> None:
        znode = await self._coordination.read(path, watch=True)
        self._values.pop(path, None)
        if znode is None:
            return
        try:
            which = entity_at(path)
            assert which is not None, "only paths of entities are read"
            values = decode_values(which, decode_config(znode.payload))
        except ValueError as error:
            log.error("the quotas of %s are not applied, it is unreadable: %s", path, error)
            return
        if values:
            self._values[path] = (which, values)

    async def _read_children(self, path: str) -> frozenset[str]:
        """Return the paths of new children, and forget those that are gone."""
        names = await self._coordination.children(path, watch=True)
        found = frozenset(f"{path}/{name}" for name in names)
        known = self._children.get(path, frozenset())
        self._children[path] = found
        for gone in known - found:
            self._forget(gone)
        return frozenset(each for each in found - known if _is_followed(each))

    def _forget(self, path: str) -> None:
        self._values.pop(path, None)
        for child in self._children.pop(path, ()):
            self._forget(child)


def _is_followed(path: str) -> bool:
    return _may_have_quotas(path) or _has_children(path)


def _may_have_quotas(path: str) -> bool:
    try:
        return entity_at(path) is not None
    except ValueError:
        return False


def _has_children(path: str) -> bool:
    """Return whether this is a root, a user, or the folder of a user's client ids."""
    if path in ROOTS:
        return True
    folder, _, name = path.rpartition("/")
    if folder == znode_paths.USER_CONFIGS:
        return True
    return name == CLIENTS_OF_USER and folder.rpartition("/")[0] == znode_paths.USER_CONFIGS
