"""SHELL: finds out that the controller's process is gone before its session ends.

Every other broker keeps a connection to the controller. If it ends, and the controller's port
refuses a new one, the process is gone and only its session lives. The detector then deletes the
/controller znode, as an operator does to force an election. All live brokers take part in it.

Guarantees:

- The deletion is conditional on the controller epoch: it ends only the term that was watched.
- A controller is ended at most once, because the next one has to be reached first.
- A controller that is unreachable, or hangs, is left until its session ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from local_cluster.client.connection import RefusedError
from local_cluster.controller.model import broker_znodes, znode_paths
from local_cluster.controller.model.cluster_image import BrokerEndpoints
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.controller.zk.coordination import (
    CheckVersion,
    CommitConflict,
    Coordination,
    CoordinationUnavailable,
    Delete,
)
from local_cluster.network import ConnectToPeer
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import KafkaError

RETRY_SECONDS: Final = 1.0
"""Delay before another attempt to reach the controller."""

log = logging.getLogger(__name__)


class ControllerFailureDetector:
    """One per broker; `run` it as a task."""

    def __init__(
        self,
        settings: BrokerSettings,
        cache: MetadataCache,
        coordination: Coordination,
        connect: ConnectToPeer,
    ) -> None:
        self._broker_id = settings.broker_id
        self._listener = settings.inter_broker_listener
        self._cache = cache
        self._coordination = coordination
        self._connect = connect
        self._changed = asyncio.Event()

    def check(self) -> None:
        """The controller may be another broker, or have restarted."""
        self._changed.set()

    async def run(self) -> None:
        """Watch the controller, until cancelled."""
        reached: BrokerEndpoints | None = None
        while True:
            self._changed.clear()
            controller = self._controller()
            if controller is None:
                await self._changed.wait()
                continue
            try:
                connection = await self._connect(*controller.listeners[self._listener])
            except RefusedError:
                if reached == controller and await self._end_term(controller.id):
                    reached = None
                await self._pause()
                continue
            except KafkaError:
                await self._pause()
                continue
            reached = controller
            connection.when_closed(self._changed.set)
            try:
                while not connection.is_closed and self._controller() == controller:
                    await self._changed.wait()
                    self._changed.clear()
            finally:
                connection.abort("the controller changed")

    def _controller(self) -> BrokerEndpoints | None:
        """Return the controller if it is another broker."""
        if self._cache.controller_id == self._broker_id:
            return None
        controller = self._cache.brokers.get(self._cache.controller_id)
        has_address = controller is not None and self._listener in controller.listeners
        return controller if has_address else None

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RETRY_SECONDS):
                await self._changed.wait()

    async def _end_term(self, controller_id: int) -> bool:
        """Return whether the term is over, ended by any broker; if False, try again."""
        try:
            # Read the epoch first: an epoch that is still the same then belongs to that controller.
            epoch = await self._coordination.read(znode_paths.CONTROLLER_EPOCH)
            found = await self._coordination.read(znode_paths.CONTROLLER)
            if epoch is None or found is None:
                return True
            if broker_znodes.decode_controller(found.payload) != controller_id:
                return True
            log.warning(
                "controller %d refuses connections; ending its term before its session",
                controller_id,
            )
            unless_another = CheckVersion(znode_paths.CONTROLLER_EPOCH, epoch.version)
            await self._coordination.commit((unless_another, Delete(znode_paths.CONTROLLER)))
        except CommitConflict:
            return True
        except (CoordinationUnavailable, ValueError) as error:
            log.warning("cannot end the term of controller %d: %s", controller_id, error)
            return False
        return True
