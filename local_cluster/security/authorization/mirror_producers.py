"""SHELL: the producer ids that mirrors got on this cluster, which nobody else may write with.

Links read by its producer id whether a mirror wrote a batch. So an id that a mirror gets is listed
in ZooKeeper before the mirror knows it, and every broker follows the list. A mirror is whoever may
write offset maps (`reserved_topics`), except super users: they may write anything anyway.

Not here: ids from before this list, which are not in it.
"""

from __future__ import annotations

import logging
from typing import Final

from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.znode_json import (
    UnreadableZnodeError,
    decode_json,
    encode_json,
)
from local_cluster.controller.zk.coordination import (
    CommitConflict,
    Coordination,
    CoordinationUnavailable,
    Create,
    SessionState,
    SetPayload,
    ZkOp,
    Znode,
)
from local_cluster.controller.zk.followed_znodes import FollowedZnodes
from local_cluster.security.authorization.authorizer import AskingContext, Authorizer
from local_cluster.wire.errors import ErrorCode, KafkaError

IDS_MAX: Final = 10_000
"""Listed ids: a mirror needs one per link, and a znode holds 1 MiB. Further ones are not listed."""
ATTEMPTS_MAX: Final = 20
"""Writes of the list that may collide with those of other brokers, for one id."""
VERSION: Final = 1

log = logging.getLogger(__name__)


class MirrorProducers:
    """The list, as one broker follows it."""

    def __init__(self, coordination: Coordination, authorizer: Authorizer) -> None:
        self._coordination = coordination
        self._authorizer = authorizer
        self.ids: frozenset[int] = frozenset()
        """Those that are listed."""
        self._followed = FollowedZnodes("producer ids of mirrors", self._read)

    async def start(self) -> None:
        """Read the list, and follow it. Waits until ZooKeeper answers."""
        await self._followed.start()

    async def stop(self) -> None:
        """Follow no more."""
        await self._followed.stop()

    def may_write(self, context: AskingContext, producer_id: int) -> bool:
        """Return whether a client may write with this id. A denial is logged and counted."""
        return producer_id not in self.ids or self._authorizer.authorize_producer(
            context, producer_id
        )

    async def claim(self, context: AskingContext, producer_id: int) -> None:
        """List an id that a client gets next, if it is a mirror.

        Raises KafkaError if ZooKeeper does not answer: then the client must not get it.
        """
        if not self._authorizer.is_mirror(context):
            return
        try:
            for _ in range(ATTEMPTS_MAX):
                znode = await self._coordination.read(znode_paths.MIRROR_PRODUCERS)
                if await self._added(znode, producer_id):
                    return
        except CoordinationUnavailable as error:
            raise KafkaError(ErrorCode.coordinator_not_available, str(error)) from error
        except UnreadableZnodeError as error:
            raise KafkaError(ErrorCode.unknown_server_error, str(error)) from error
        raise KafkaError(ErrorCode.coordinator_not_available, "other brokers list ids too")

    async def _added(self, znode: Znode | None, producer_id: int) -> bool:
        """Write the list with one id more; return False if another broker was faster."""
        ids = _ids(znode)
        if len(ids) >= IDS_MAX:
            log.error("producer id %d of a mirror is not protected: the list is full", producer_id)
            return True
        payload = _payload(ids | {producer_id})
        path = znode_paths.MIRROR_PRODUCERS
        op: ZkOp = Create(path, payload)
        if znode is not None:
            op = SetPayload(path, payload, znode.version)
        try:
            await self._coordination.commit([op])
        except CommitConflict:
            return False
        self.ids |= {producer_id}
        return True

    # -- events -----------------------------------------------------------------------------

    def path_changed(self, path: str | None) -> None:
        """A watch fired; None for all of them."""
        if path in (None, znode_paths.MIRROR_PRODUCERS):
            self._followed.mark(path)

    def session_changed(self, state: SessionState) -> None:
        """Watches of a lost session are gone."""
        self._followed.session_changed(state)

    async def _read(self, changed: set[str | None]) -> None:
        znode = await self._coordination.read(znode_paths.MIRROR_PRODUCERS, watch=True)
        try:
            # The list only grows: what this broker has just added may not be read yet.
            self.ids |= _ids(znode)
        except UnreadableZnodeError as error:
            path = znode_paths.MIRROR_PRODUCERS
            log.error("%s is unreadable, the last ids stay: %s", path, error)


def _payload(ids: frozenset[int]) -> bytes:
    return encode_json({"version": VERSION, "ids": sorted(ids)})


def _ids(znode: Znode | None) -> frozenset[int]:
    """Return the ids of a list. Raises UnreadableZnodeError."""
    if znode is None:
        return frozenset()
    document = decode_json(znode.payload)
    version, ids = document.get("version"), document.get("ids")
    if version != VERSION or not isinstance(ids, list) or {type(each) for each in ids} - {int}:
        raise UnreadableZnodeError(f"not a list of producer ids of version {VERSION}")
    return frozenset(ids)
