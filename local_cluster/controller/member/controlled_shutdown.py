"""SHELL: moves leadership off this broker before it stops (Kafka's ControlledShutdown).

The request is the private HAND_OVER, sent to the controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from local_cluster.clock import Clock
from local_cluster.controller.member.cluster_member import ClusterMember
from local_cluster.controller.member.inter_broker import ControllerConnection
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import KafkaError

log = logging.getLogger(__name__)

RETRY_MS: Final = 200


class ControlledShutdown:
    """The shutdown of one broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        cache: MetadataCache,
        member: ClusterMember,
        connection: ControllerConnection,
        shut_down_here: Callable[[int, int], Awaitable[None]],
    ) -> None:
        """`shut_down_here` serves the request (broker id, broker epoch) as the controller."""
        self._broker_id = settings.broker_id
        self._clock = clock
        self._cache = cache
        self._member = member
        self._connection = connection
        self._shut_down_here = shut_down_here

    async def request(self, timeout_ms: int) -> bool:
        """Return whether this broker leads, in time, nothing that another replica could lead."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        left_ms = timeout_ms
        while left_ms > 0:
            try:
                await self._request(left_ms)
                return await self._member.updates.wait_until(
                    self._leads_nothing, deadline_ms - self._clock.monotonic_ms()
                )
            except KafkaError as error:
                log.info("no controlled shutdown yet: %s", error)
            # Most likely the controller stops as well, and another one is being elected.
            await asyncio.sleep(RETRY_MS / 1000)
            left_ms = deadline_ms - self._clock.monotonic_ms()
        return False

    async def _request(self, timeout_ms: int) -> None:
        broker_epoch = self._cache.broker_epoch
        if self._member.controller is not None:
            await self._shut_down_here(self._broker_id, broker_epoch)
        else:
            await self._connection.request_shutdown(self._broker_id, broker_epoch, timeout_ms)

    def _leads_nothing(self) -> bool:
        return not any(
            state.leader == self._broker_id and len(state.isr) > 1
            for topic in self._cache.topics.values()
            for state in topic.partitions.values()
        )
