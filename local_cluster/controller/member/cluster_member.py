"""SHELL: this broker as a member of its cluster: registered, informed, perhaps the controller.

    start() -> layout, cluster id, registration, election -> follow
    follow: a session event or a change of /controller -> check all of it again (`_settle`)
    session LOST -> resign at once; the new session registers and takes part in the election

Guarantees: a broker whose session ended controls nothing any more. A broker with a failing listener
takes part and controls all the same; the listener is informed again.

Not here: requests (control_plane.py), terms as the controller (controller_role.py), the cache and
its listeners (metadata_updates.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Mapping
from typing import Final

from local_cluster.clock import Clock
from local_cluster.controller.active.active_controller import ActiveController
from local_cluster.controller.active.change_processor import EVERYTHING
from local_cluster.controller.member import registration
from local_cluster.controller.member.controller_election import elect, read_controller_epoch
from local_cluster.controller.member.controller_role import ControllerRole
from local_cluster.controller.member.failure_detector import ControllerFailureDetector
from local_cluster.controller.member.metadata_updates import MetadataUpdates
from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.cluster_image import ClusterDelta, ReplicaReport
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.controller.model.znode_json import encode_uuid
from local_cluster.controller.zk.coordination import (
    Coordination,
    CoordinationDenied,
    CoordinationUnavailable,
    SessionState,
    ZnodeFollower,
)
from local_cluster.network import ConnectToPeer
from local_cluster.settings import BrokerSettings

log = logging.getLogger(__name__)

RETRY_DELAY_MS: Final = 100
LISTENER_RETRY_MS: Final = 1_000
"""Delay before listeners are informed of the controller again after one of them failed."""


class ClusterMember:
    """The membership of one broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        cache: MetadataCache,
        on_change: Callable[[Changes], None],
        *,
        bound_ports: Mapping[str, int],
        coordination: Coordination,
        new_topic_id: Callable[[], uuid.UUID],
        connect: ConnectToPeer,
        report: Callable[[], ReplicaReport] = ReplicaReport,
    ) -> None:
        """`report` returns the offline replicas of this broker. `on_change` raises KafkaError if a
        listener failed."""
        self._settings = settings
        self._clock = clock
        self._cache = cache
        self._bound_ports = bound_ports
        self._coordination = coordination
        self._new_topic_id = new_topic_id
        self._registered_session = 0
        self.followers: list[ZnodeFollower] = []
        """They hear of every watch and session event, after this member."""
        self.is_connected = False
        """Whether ZooKeeper answers, as far as is known."""
        self._election_due = asyncio.Event()
        """Set when the registration and the election have to be checked again."""
        self._follow_task: asyncio.Task[None] | None = None
        self._detector = ControllerFailureDetector(settings, cache, coordination, connect)
        self._detector_task: asyncio.Task[None] | None = None
        self.updates = MetadataUpdates(
            cache,
            on_change,
            report,
            cache_changed=self._detector.check,
            delta_applied=self._delta_applied,
        )
        self.role = ControllerRole(
            settings,
            cache,
            coordination,
            self.updates,
            new_topic_id=new_topic_id,
            connect=connect,
            check_election=self._election_due.set,
        )

    @property
    def controller(self) -> ActiveController | None:
        """The controller while this broker is it and has loaded the cluster's state."""
        return self.role.controller

    async def start(self) -> None:
        """Register and take part in the election; an election is over on return.

        Waits while the connection is lost. Raises CoordinationUnavailable if there is no connection
        at first or ZooKeeper denies a request, or KafkaError: duplicate_broker_registration, or
        unsupported_version if a newer version was made final.
        """
        self._coordination.subscribe(self._path_changed, self._session_changed)
        await self._coordination.start()
        self.is_connected = True
        while True:
            try:
                await registration.check_format_level(self._coordination)
                await self._settle()
                break
            except CoordinationDenied:
                raise
            except CoordinationUnavailable as error:
                log.warning("lost ZooKeeper while joining the cluster: %s", error)
                await asyncio.sleep(RETRY_DELAY_MS / 1000)
        self._follow_task = asyncio.create_task(self._follow(), name="cluster membership")
        self._detector_task = asyncio.create_task(
            self._detector.run(), name="controller failure detector"
        )

    async def stop(self) -> None:
        """Leave the cluster: the registration and the controller's znode go at once."""
        for task in (self._follow_task, self._detector_task):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self.role.resign()
        self.updates.cancel_waiters()
        await self._coordination.stop()

    async def wait_informed(self, timeout_ms: int) -> bool:
        """Return whether this broker got, in time, an image that names it."""
        return await self.updates.wait_until(
            lambda: self._settings.broker_id in self._cache.brokers, timeout_ms
        )

    # -- events -----------------------------------------------------------------------------

    def _delta_applied(self, delta: ClusterDelta) -> None:
        active = self.role.active
        if active is not None and delta.controller_epoch > active.term.controller_epoch:
            log.warning("broker %d is the controller now", delta.controller_id)
            self._election_due.set()

    def _path_changed(self, path: str | None) -> None:
        if path is None or path == znode_paths.CONTROLLER:
            self._election_due.set()
        if self.role.active is not None and path != znode_paths.CONTROLLER:
            self.role.active.changes.mark(path)
        for follower in self.followers:
            follower.path_changed(path)

    def _session_changed(self, state: SessionState) -> None:
        log.info("ZooKeeper session: %s", state.value)
        self.is_connected = state is SessionState.CONNECTED
        if state is SessionState.LOST:
            self._registered_session = 0
            if self.role.active is not None:
                self.role.end(self.role.active)
            self._election_due.set()
        if state is SessionState.CONNECTED:
            self._election_due.set()
            if self.role.active is not None:
                self.role.active.changes.mark(EVERYTHING)
        for follower in self.followers:
            follower.session_changed(state)

    # -- membership -------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            # A controller's publisher repeats an image that a listener failed over. Only this task
            # repeats a change of the elected controller.
            is_due = self.updates.has_failed_listener and self.role.active is None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LISTENER_RETRY_MS / 1000 if is_due else None):
                    await self._election_due.wait()
            self._election_due.clear()
            try:
                await self._settle()
            except CoordinationUnavailable as error:
                log.warning("ZooKeeper does not answer: %s", error)
                self._election_due.set()
                await asyncio.sleep(RETRY_DELAY_MS / 1000)
            except Exception:
                # Outermost handler: if this task ended, the broker would follow no election.
                log.exception("cannot take part in the cluster")
                self._election_due.set()
                await asyncio.sleep(RETRY_DELAY_MS / 1000)

    async def _settle(self) -> None:
        """Be registered, know the controller, and be it if this broker is elected."""
        session_id = self._coordination.session_id
        if self._registered_session != session_id:
            await self.role.resign()
            await self._join()
            self._registered_session = session_id
        controller_id, term = await elect(
            self._coordination,
            self._settings.broker_id,
            self._clock,
            self._cache.controller_epoch,
        )
        if term is None or self.role.active is None or self.role.active.term != term:
            await self.role.resign()
        self.updates.observe_controller(controller_id)
        if term is not None and self.role.active is None:
            await self.role.begin(term)

    async def _join(self) -> None:
        await registration.ensure_layout(self._coordination)
        self._cache.cluster_id = await registration.ensure_cluster_id(
            self._coordination, encode_uuid(self._new_topic_id())
        )
        # Before the registration. After it, a deposed controller that has not noticed may send its
        # old image to this broker epoch. This broker would drop the replicas that it leaves out.
        self._cache.observe_controller_epoch(await read_controller_epoch(self._coordination))
        payload = registration.registration_payload(
            self._settings, self._bound_ports, self._clock.now_ms()
        )
        self._cache.broker_epoch = await registration.register(
            self._coordination, self._settings, payload, self._clock
        )
