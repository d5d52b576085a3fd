"""SHELL: finds out that the controller's process is gone, before its session is over.

Every other broker keeps a line to the controller. When that ends, and nobody listens there any
more, the process is gone, and with it whatever its session stands for: its /controller znode is
deleted, as people do who want another controller, and all that live take part in an election.

Guarantees: only the term that was watched is ended, since the deletion is conditional on the
controller epoch; a controller is ended at most once, as the next one has to be reached first; one
that is out of reach, or hangs, is left to its session.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from local_cluster.client.connection import RefusedError
from local_cluster.controller.model import znodes
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
"""Before a controller that is not reached is tried again."""

log = logging.getLogger(__name__)


class ControllerWatch:
    """One per broker; `run` it as a task."""

    def __init__(
        self,
        settings: BrokerSettings,
        cache: MetadataCache,
        coordination: Coordination,
        open_line: ConnectToPeer,
    ) -> None:
        self._broker_id = settings.broker_id
        self._listener = settings.inter_broker_listener
        self._cache = cache
        self._coordination = coordination
        self._open_line = open_line
        self._moved = asyncio.Event()

    def look(self) -> None:
        """Another broker may control, or the same one in another run."""
        self._moved.set()

    async def run(self) -> None:
        """Watch whoever controls, until cancelled."""
        reached: BrokerEndpoints | None = None
        while True:
            self._moved.clear()
            controller = self._controller()
            if controller is None:
                await self._moved.wait()
                continue
            try:
                line = await self._open_line(*controller.listeners[self._listener])
            except RefusedError:
                if reached == controller and await self._end_term(controller.id):
                    reached = None
                await self._pause()
                continue
            except KafkaError:
                await self._pause()
                continue
            reached = controller
            line.when_closed(self._moved.set)
            try:
                while not line.is_closed and self._controller() == controller:
                    await self._moved.wait()
                    self._moved.clear()
            finally:
                line.abort("the controller is another one")

    def _controller(self) -> BrokerEndpoints | None:
        """Who controls, where that is another broker."""
        if self._cache.controller_id == self._broker_id:
            return None
        controller = self._cache.brokers.get(self._cache.controller_id)
        has_address = controller is not None and self._listener in controller.listeners
        return controller if has_address else None

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RETRY_SECONDS):
                await self._moved.wait()

    async def _end_term(self, controller_id: int) -> bool:
        """Whether that is done, by whomever; else it is to be tried again."""
        try:
            # In this order: an epoch that is still the same then belongs to the controller read.
            epoch = await self._coordination.read(znodes.CONTROLLER_EPOCH)
            found = await self._coordination.read(znodes.CONTROLLER)
            if epoch is None or found is None:
                return True
            if znodes.decode_controller(found.payload) != controller_id:
                return True
            log.warning(
                "controller %d is gone: its term is ended before its session", controller_id
            )
            unless_another = CheckVersion(znodes.CONTROLLER_EPOCH, epoch.version)
            await self._coordination.commit((unless_another, Delete(znodes.CONTROLLER)))
        except CommitConflict:
            return True
        except (CoordinationUnavailable, ValueError) as error:
            log.warning("the term of controller %d is not ended: %s", controller_id, error)
            return False
        return True
