"""SHELL: the ACLs in ZooKeeper, followed into an image, and changed.

Guarantees:

- An image is complete: it has what was stored for each resource when it was last read.
- A change that is acknowledged here is in this broker's image. Other brokers get a notification in
  the same commit, and read the resource as soon as their session reports it.
- After a lost connection everything is read again: notifications may have expired meanwhile.
- A znode that cannot be read denies everything on its resource to all but super users.

While ZooKeeper does not answer, the last complete image stays valid, with an optional limit.

Not here: the decisions (decision.py), the layout and payloads (acl_znodes.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from local_cluster.clock import Clock
from local_cluster.controller.zk.bulk_reads import gather_bounded, read_by_key
from local_cluster.controller.zk.coordination import (
    CommitConflict,
    Coordination,
    CoordinationUnavailable,
    Create,
    Delete,
    SessionState,
    SetPayload,
    ZkOp,
    Znode,
)
from local_cluster.security.authorization import acl_znodes
from local_cluster.security.authorization.acl_image import AclImage, Entry, Resource
from local_cluster.wire.constants import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclOperation,
    PatternType,
    Permission,
)
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

RETRY_DELAY_MS: Final = 100
CONFLICTS_MAX: Final = 20
"""Attempts of one change while other writers change the same resource."""
NOTIFICATION_MS: Final = 15 * 60 * 1000
"""How long a notification is kept, as in Kafka."""
NO_LIMIT: Final = -1
DENY_ALL: Final = frozenset(
    {Entry(WILDCARD_PRINCIPAL, WILDCARD, AclOperation.ALL, Permission.DENY)}
)
"""The ACLs of a resource whose znode cannot be read."""

EntriesPlan = Callable[[frozenset[Entry]], frozenset[Entry]]
"""Maps the present ACLs of a resource to the wanted ones; raises KafkaError."""


class AclStore:
    """The ACLs of one cluster, as one broker follows them."""

    def __init__(
        self,
        coordination: Coordination,
        clock: Clock,
        on_image: Callable[[AclImage | None], None],
        *,
        age_ms_max: int = NO_LIMIT,
    ) -> None:
        """`on_image` gets each new image, and None once an old one exceeds `age_ms_max`."""
        self._coordination = coordination
        self._clock = clock
        self._on_image = on_image
        self._age_ms_max = age_ms_max
        self._image: AclImage | None = None
        self._outdated_since_ms: int | None = None
        """When the image may have become old; None while it is current."""
        self._must_load = True
        self._due = asyncio.Event()
        self._lock = asyncio.Lock()
        """Held by whoever reads or changes, so that an older reading never replaces a newer one."""
        self._notified: dict[str, int] = {}
        """Notifications that were read, by path, with the time."""
        self._follow_task: asyncio.Task[None] | None = None
        self._limit: asyncio.TimerHandle | None = None

    @property
    def image(self) -> AclImage | None:
        """The last complete image."""
        return self._image

    @property
    def age_ms(self) -> int:
        """How old the image may be; 0 while every change arrives."""
        since = self._outdated_since_ms
        return 0 if since is None else self._clock.monotonic_ms() - since

    async def start(self) -> None:
        """Create the layout, read everything, and follow. Waits until ZooKeeper answers."""
        while True:
            try:
                await self._ensure_layout()
                async with self._lock:
                    await self._load()
                break
            except CoordinationUnavailable as error:
                log.warning("cannot read the ACLs yet: %s", error)
                await asyncio.sleep(RETRY_DELAY_MS / 1000)
        self._follow_task = asyncio.create_task(self._follow(), name="ACLs")

    async def stop(self) -> None:
        """Follow no more."""
        if self._limit is not None:
            self._limit.cancel()
        if self._follow_task is not None:
            self._follow_task.cancel()
            await asyncio.gather(self._follow_task, return_exceptions=True)

    # -- events -----------------------------------------------------------------------------

    def path_changed(self, path: str | None) -> None:
        """A watch fired; None for all of them."""
        if path is None:
            self._load_soon()
        elif path in acl_znodes.CHANGES.values():
            self._due.set()

    def session_changed(self, state: SessionState) -> None:
        """The connection to ZooKeeper was lost, or is back."""
        self._must_load = True
        if state is SessionState.CONNECTED:
            self._due.set()
            return
        if self._outdated_since_ms is None:
            self._outdated_since_ms = self._clock.monotonic_ms()
            log.warning("ACLs: ZooKeeper does not answer; the last complete image stays valid")
            if self._age_ms_max != NO_LIMIT:
                loop = asyncio.get_running_loop()
                self._limit = loop.call_later(self._age_ms_max / 1000, self._expire)

    def _expire(self) -> None:
        log.error(
            "ACLs: the image is older than heliograph.acl.image.max.age.ms (%d ms), so only super "
            "users are served until ZooKeeper answers",
            self._age_ms_max,
        )
        self._on_image(None)

    async def _follow(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                async with self._lock:
                    await self._catch_up()
            except CoordinationUnavailable as error:
                log.warning("cannot read the ACLs: %s", error)
                await asyncio.sleep(RETRY_DELAY_MS / 1000)
            except Exception:
                # Outermost handler: if this task ended, no revocation would arrive any more.
                log.exception("cannot follow the ACLs")
                await asyncio.sleep(RETRY_DELAY_MS / 1000)

    def _load_soon(self) -> None:
        self._must_load = True
        self._due.set()

    # -- reading ----------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        try:
            if self._must_load:
                await self._load()
            else:
                await self._read_changes()
        except BaseException:
            # What was found and not read would be forgotten.
            self._load_soon()
            raise

    async def _read_changes(self) -> None:
        changed: set[Resource] = set()
        for pattern_type, paths in (await self._new_notifications()).items():
            for znode in (await read_by_key(self._coordination, paths)).values():
                if znode is None:
                    continue  # expired: its resource is read for the next one, or was read
                try:
                    changed.add(acl_znodes.decode_change(pattern_type, znode.payload))
                except ValueError as error:
                    log.error("a change of ACLs is unreadable, so all are read: %s", error)
                    await self._load()
                    return
        await self._refresh(changed)
        await self._expire_notifications()

    async def _load(self) -> None:
        """Read everything. What changes meanwhile is notified, and read again."""
        self._must_load = False
        self._notified.clear()
        await self._new_notifications()
        resources = []
        for pattern_type in acl_znodes.ROOTS:
            for resource_type in acl_znodes.STORED_TYPES:
                path = acl_znodes.type_path(pattern_type, resource_type)
                names = await self._coordination.children(path)
                resources += [Resource(resource_type, pattern_type, name) for name in names]
        self._replace(AclImage(await self._read(resources)))
        if not self._must_load:
            self._outdated_since_ms = None
            if self._limit is not None:
                self._limit.cancel()
        log.info("read %d ACLs of %d resources", len(self._image or ()), len(resources))

    async def _new_notifications(self) -> dict[PatternType, dict[str, str]]:
        """Return the paths of notifications that were not read yet, and watch for more."""
        found: dict[PatternType, dict[str, str]] = {}
        for pattern_type, root in acl_znodes.CHANGES.items():
            names = await self._coordination.children(root, watch=True)
            paths = [f"{root}/{name}" for name in names]
            found[pattern_type] = {path: path for path in paths if path not in self._notified}
            for path in found[pattern_type]:
                self._notified[path] = self._clock.monotonic_ms()
        return found

    async def _refresh(self, resources: Iterable[Resource]) -> None:
        """Read these resources again."""
        found = await self._read(resources)
        if found and self._image is not None:
            self._replace(self._image.with_resources(found))

    async def _read(self, resources: Iterable[Resource]) -> dict[Resource, frozenset[Entry]]:
        paths = {resource: acl_znodes.resource_path(resource) for resource in resources}
        found = await read_by_key(self._coordination, paths)
        return {resource: _entries(paths[resource], znode) for resource, znode in found.items()}

    def _replace(self, image: AclImage) -> None:
        self._image = image
        self._on_image(image)

    async def _expire_notifications(self) -> None:
        """Delete notifications that every broker has had time to read."""
        before_ms = self._clock.monotonic_ms() - NOTIFICATION_MS
        for path in [path for path, read_ms in self._notified.items() if read_ms < before_ms]:
            with contextlib.suppress(CommitConflict):
                await self._coordination.commit([Delete(path)])
            del self._notified[path]

    async def _ensure_layout(self) -> None:
        for path in acl_znodes.layout():
            if await self._coordination.read(path) is None:
                with contextlib.suppress(CommitConflict):
                    await self._coordination.commit([Create(path)])

    # -- changing ---------------------------------------------------------------------------

    async def change(
        self, plans: Mapping[Resource, EntriesPlan]
    ) -> dict[Resource, KafkaError | None]:
        """Change the ACLs of resources, each by itself; return the error of each.

        The changes are in the image on return. Raises CoordinationUnavailable: any of them may
        have happened.
        """
        async with self._lock:

            async def write(resource: Resource) -> KafkaError | None:
                try:
                    await self._write(resource, plans[resource])
                except KafkaError as error:
                    return error
                return None

            try:
                return dict(await gather_bounded(plans, write))
            finally:
                # Also if the outcome is unknown: the image must not lag behind a done revocation.
                try:
                    await self._refresh(plans)
                except CoordinationUnavailable:
                    self._load_soon()

    async def read_again(self, resources: Sequence[Resource]) -> AclImage:
        """Return an image with every change that was acknowledged to anyone we heard of.

        Raises CoordinationUnavailable.
        """
        async with self._lock:
            await self._catch_up()
            await self._refresh(resources)
        assert self._image is not None, "start() reads one"
        return self._image

    async def _write(self, resource: Resource, plan: EntriesPlan) -> None:
        path = acl_znodes.resource_path(resource)
        for _ in range(CONFLICTS_MAX):
            znode = await self._coordination.read(path)
            present = _stored(path, znode)
            wanted = plan(present)
            if wanted == present:
                return
            write: ZkOp
            if znode is None:
                write = Create(path, acl_znodes.encode_entries(wanted))
            elif wanted:
                write = SetPayload(path, acl_znodes.encode_entries(wanted), znode.version)
            else:
                write = Delete(path, znode.version)
            change_path, change = acl_znodes.encode_change(resource)
            try:
                await self._coordination.commit(
                    (write, Create(change_path, change, sequential=True))
                )
                return
            except CommitConflict:
                continue
        raise KafkaError(ErrorCode.request_timed_out, f"other writers keep changing {path}")


def _stored(path: str, znode: Znode | None) -> frozenset[Entry]:
    """Return the ACLs to change. Raises KafkaError if they cannot be read."""
    try:
        return frozenset() if znode is None else acl_znodes.decode_entries(znode.payload)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.unknown_server_error,
            f"{path} in ZooKeeper is unreadable: repair or delete it there",
        ) from error


def _entries(path: str, znode: Znode | None) -> frozenset[Entry]:
    if znode is None:
        return frozenset()
    try:
        return acl_znodes.decode_entries(znode.payload)
    except ValueError as error:
        log.error("%s is unreadable, so it denies everything: %s", path, error)
        return DENY_ALL
