"""SHELL: the producer ids of mirrors on this cluster, which nobody else may write with.

Links read by its producer id whether a mirror wrote a batch. So mirrors get ids of a range of their
own, at random, so that nobody knows one before its mirror writes with it. An id that a mirror has
had from before is listed in ZooKeeper when the mirror starts, or writes with it. Every broker
follows the list.

A mirror is whoever may write offset maps (`reserved_names`). A super user is one only if the
settings name it: ids from before of other administrators are not listed.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
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

MIRROR_IDS_FROM: Final = 1 << 52
"""Ids from here on are those of mirrors. Blocks of ids do not get there, and 53 bits are exact in
any JSON."""
IDS_MAX: Final = 10_000
"""Listed ids: a mirror needs one per link, and a znode holds 1 MiB. Further ones are not listed."""
ATTEMPTS_MAX: Final = 20
"""Writes of the list that may collide with those of other brokers, for one id."""
VERSION: Final = 1
LISTING_MAX: Final = 100
"""Ids that are being listed at once; others wait for their next batch."""
RETRY_SECONDS: Final = 5.0
"""Before an id is tried again that could not be listed."""

log = logging.getLogger(__name__)


class MirrorProducers:
    """The list, as one broker follows it."""

    def __init__(self, coordination: Coordination, authorizer: Authorizer) -> None:
        self._coordination = coordination
        self._authorizer = authorizer
        self.ids: frozenset[int] = frozenset()
        """Those that are listed."""
        self._followed = FollowedZnodes("producer ids of mirrors", self._read)
        self._listing: dict[int, asyncio.Task[None]] = {}
        """The ids that are being listed."""

    async def start(self) -> None:
        """Read the list, and follow it. Waits until ZooKeeper answers."""
        await self._followed.start()

    async def stop(self) -> None:
        """Follow no more."""
        for task in tuple(self._listing.values()):
            task.cancel()
        await self._followed.stop()

    def may_write(self, context: AskingContext, producer_id: int) -> bool:
        """Return whether a client may write with this id. A denial is logged and counted."""
        if self._is_reserved(producer_id):
            return self._authorizer.authorize_producer(context, producer_id)
        self._list_if_mirror(context, producer_id)
        return True

    def announce(self, context: AskingContext, producer_id: int) -> None:
        """List an id from before that a mirror names when it starts."""
        if not self._is_reserved(producer_id):
            self._list_if_mirror(context, producer_id)

    def new_id(self, context: AskingContext) -> int | None:
        """Return an id for a mirror; None for anybody else."""
        if not self._authorizer.is_mirror(context):
            return None
        return MIRROR_IDS_FROM + secrets.randbelow(MIRROR_IDS_FROM)

    def _is_reserved(self, producer_id: int) -> bool:
        return producer_id >= MIRROR_IDS_FROM or producer_id in self.ids

    # -- the list ---------------------------------------------------------------------------

    def _list_if_mirror(self, context: AskingContext, producer_id: int) -> None:
        if producer_id >= 0 and self._authorizer.is_mirror(context):
            self._list_later(producer_id)

    def _list_later(self, producer_id: int) -> None:
        """List an id that a mirror writes with, beside its batch."""
        if producer_id in self._listing or len(self._listing) >= LISTING_MAX:
            return
        self._listing[producer_id] = asyncio.get_running_loop().create_task(
            self._list_beside(producer_id)
        )

    async def _list_beside(self, producer_id: int) -> None:
        try:
            await self._list(producer_id)
            log.info("only mirrors may write with producer id %d from now on", producer_id)
        except KafkaError as error:
            log.error("producer id %d of a mirror is not protected: %s", producer_id, error)
            await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._listing.pop(producer_id, None)

    async def _list(self, producer_id: int) -> None:
        """Raises KafkaError."""
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
        if producer_id in ids:
            self.ids |= ids
            return True
        if len(ids) >= IDS_MAX:
            raise KafkaError(ErrorCode.policy_violation, f"{IDS_MAX} ids are listed already")
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
