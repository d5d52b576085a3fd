"""The monitoring of one broker: its HTTP port, its sampling, and the push.

The HTTP port answers from the start of the process to its end, so that probes see both.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from local_cluster.controller.model.cluster_image import NO_CONTROLLER, TopicState
from local_cluster.monitoring.lag.end_offsets import EndOffsets
from local_cluster.monitoring.lag.unread_times import UnreadTimes
from local_cluster.monitoring.loop_monitor import LoopMonitor
from local_cluster.monitoring.monitored import MonitoredBroker
from local_cluster.monitoring.push.wanted import is_push_wanted
from local_cluster.monitoring.request_rows import SNAPSHOT_INTERVAL_MS, RecentTimes
from local_cluster.monitoring.scrape import Scraper
from local_cluster.periodic import Periodic
from local_cluster.transactions.broker_connections import BrokerConnections

if TYPE_CHECKING:
    from local_cluster.monitoring.http import MonitoringServer
    from local_cluster.monitoring.push.otlp import MetricsPush

SERVICE_NAME: Final = "heliograph-broker"
"""The default of OTEL_SERVICE_NAME."""

log = logging.getLogger(__name__)


class Monitoring:
    """Health and metrics. Without `http_port` in the settings there is no HTTP port."""

    def __init__(
        self,
        broker: MonitoredBroker,
        peers: BrokerConnections,
        listener: socket.socket | None,
        is_serving: Callable[[], bool],
    ) -> None:
        """`listener` is the bound socket of the HTTP port."""
        self._broker = broker
        self._peers = peers
        self._is_serving = is_serving
        self._times = RecentTimes(broker.meters)
        self._loop = LoopMonitor()
        ends = EndOffsets(broker.replicas, broker.metadata, peers, broker.settings.broker_id)
        unread = UnreadTimes(broker.replicas, broker.metadata, peers, broker.cold_reads)
        self._scraper = Scraper(broker, ends, unread, self._times, self._loop, is_serving)
        self._listener = listener
        self._server: MonitoringServer | None = None
        self._snapshots = Periodic(
            "snapshots of request times", self._take_snapshot, interval_ms=SNAPSHOT_INTERVAL_MS
        )
        self._push: MetricsPush | None = None

    @property
    def http_port(self) -> int | None:
        """The bound HTTP port, None without one."""
        return None if self._listener is None else int(self._listener.getsockname()[1])

    async def start(self) -> None:
        """Answer on the HTTP port, and sample. Raises SecurityError."""
        self._loop.start()
        self._snapshots.start()
        # aiohttp and OpenTelemetry cost memory, so a broker without them does not import them.
        if self._listener is not None:
            from local_cluster.http_security.guard import HttpGuard
            from local_cluster.monitoring.http import MonitoringServer

            guard = HttpGuard(self._broker.settings.http_security)
            self._server = MonitoringServer(self._checks, self._scraper.text, guard)
            await self._server.start(self._listener)
            log.info("health and metrics on port %d", self.http_port)
        if is_push_wanted():
            from local_cluster.monitoring.push.otlp import open_push

            settings = self._broker.settings
            attributes = {
                "service.name": SERVICE_NAME,
                "service.instance.id": f"{settings.cluster}-{settings.broker_id}",
                "heliograph.cluster": settings.cluster,
            }
            self._push = open_push(self._scraper.families, attributes)
            if self._push is not None:
                self._push.start()

    async def stop(self) -> None:
        """Push what is left, and close the HTTP port."""
        if self._push is not None:
            await self._push.stop()
        self._loop.stop()
        await self._snapshots.stop()
        if self._server is not None:
            await self._server.stop()
        self._peers.close()

    async def _take_snapshot(self) -> None:
        self._times.take_snapshot()

    def _checks(self, wants_in_sync: bool) -> dict[str, bool]:
        metadata = self._broker.metadata
        checks = {
            "the logs are open and the listeners accept": self._is_serving(),
            "a log directory is online": bool(self._broker.log_directories.live),
            "the controller is known": metadata.controller_id != NO_CONTROLLER,
            "the metadata has this broker": self._broker.settings.broker_id in metadata.brokers,
        }
        if wants_in_sync:
            checks["all replicas are in sync"] = metadata.is_whole and is_in_sync(
                metadata.topics.values(), self._broker.settings.broker_id
            )
        return checks


def is_in_sync(topics: Iterable[TopicState], broker_id: int) -> bool:
    """Return whether a broker is in the ISR of each partition that it replicates."""
    return all(
        broker_id in partition.isr
        for topic in topics
        for partition in topic.partitions.values()
        if broker_id in partition.replicas
    )
