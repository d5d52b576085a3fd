"""One aggregator: starts and stops its loops, HTTP server and ready file together.

Guarantees: the ready file is written atomically when every map was read to its end, and removed by
a clean stop. A failure of a loop ends the service, so that its supervisor sees it. A reload
replaces the links that differ, and the others go on.
Not here: signals and the command line (`process`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.aggregate import GROUP_SECONDS_MAX, Aggregate
from aggregator.maps.topic_follower import TopicFollower
from aggregator.metrics import SERVICE_NAME, AggregatorMetrics
from aggregator.ports import ClusterReader
from aggregator.probe.link_probe import LinkProbe, link_probes
from aggregator.settings import AggregatorSettings, LinkSettings, parse_settings
from aggregator.watchers import MirrorWatcher, TopicWatcher
from aggregator.web.app import make_app
from local_cluster.client.client import KafkaClient
from local_cluster.client.group import CoordinatorClient
from local_cluster.http_security.guard import HttpGuard
from local_cluster.http_security.port import HttpPort
from local_cluster.monitoring.push.text import open_text_push
from local_cluster.starting import SettingsFile

if TYPE_CHECKING:  # it imports aiokafka, which only aggregators with probes need
    from aggregator.probe.prober import Prober
    from local_cluster.monitoring.push.otlp import MetricsPush

READY_POLL_SECONDS: Final = 0.05
REQUEST_TIMEOUT_MS: Final = 10_000
"""Milliseconds that the aggregate may take to respond to a request."""
SHUTDOWN_SECONDS_MAX: Final = 2.0
"""Seconds that requests in flight may take when the service stops."""
RUN_ID_BYTES: Final = 8

log = logging.getLogger(__name__)


def open_source(link: LinkSettings) -> ClusterReader:
    """Return a client of the link's source; it connects at the first request."""
    return KafkaClient(
        link.source_bootstrap,
        client_id="heliograph-aggregator",
        request_timeout_ms=int(GROUP_SECONDS_MAX * 1000),
        security=link.source_security,
    )


class AggregatorService:
    """Everything that one aggregator process runs."""

    def __init__(
        self, settings: AggregatorSettings, settings_file: SettingsFile | None = None
    ) -> None:
        """`settings_file` has the settings; without it links cannot be reloaded."""
        self.settings = settings
        self.aggregate = Aggregate(
            settings,
            open_source=open_source,
            open_aggregate=self._open_aggregate,
            monotonic=time.monotonic,
            now_ms=lambda: time.time_ns() // 1_000_000,
            probes=_probes(settings, {}),
        )
        self._file = settings_file
        self._reload = asyncio.Event()
        self._is_announced = False
        """Whether the ready file was written."""
        self._prober: Prober | None = None
        self._watches_mirrors = False
        self._metrics = AggregatorMetrics(self.aggregate)
        self._ready_file = Path(settings.ready_file)
        self.http_port = settings.http_port
        """The bound port; `run` sets it once it listens."""

    def reload(self) -> None:
        """Begin to take over the links of the settings file as it is now."""
        self._reload.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set.

        Raises the error of a failed loop, OSError from binding, and SecurityError if the tokens or
        certificates of its HTTP port cannot be used.
        """
        guard = HttpGuard(self.settings.http_security)
        app = make_app(self.aggregate, self._metrics, guard)
        port = HttpPort(app, guard, shutdown_s_max=SHUTDOWN_SECONDS_MAX)
        push = self._open_push()
        # On a shared connection the follower's long polls would delay other requests.
        follower_client = self._open_aggregate()
        topics_client = self._open_aggregate()
        workers_client = self._open_aggregate()
        try:
            await port.bind(self.settings.http_host, self.settings.http_port)
            self.http_port = port.addresses[0][1]
            log.info("listening on %s:%d", self.settings.http_host, self.http_port)
            if push is not None:
                push.start()
            await self._run_tasks(stop, follower_client, topics_client, workers_client)
        finally:
            self._ready_file.unlink(missing_ok=True)
            if push is not None:
                await push.stop()
            await port.stop()
            await follower_client.close()
            await topics_client.close()
            await workers_client.close()
            self._metrics.close()

    def _open_push(self) -> MetricsPush | None:
        attributes = {
            "service.name": SERVICE_NAME,
            "service.instance.id": f"aggregator-{self.settings.aggregate}",
            "heliograph.cluster": self.settings.aggregate,
        }
        return open_text_push(lambda: self._metrics.render().decode(), lambda: attributes)

    async def _run_tasks(
        self,
        stop: asyncio.Event,
        follower_client: ClusterReader,
        topics_client: ClusterReader,
        workers_client: CoordinatorClient,
    ) -> None:
        follower = TopicFollower(
            follower_client,
            self.aggregate.followed(),
            monotonic=time.monotonic,
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(follower.run(), name="topic follower")
                tasks.create_task(TopicWatcher(topics_client, self.aggregate).run(), name="topics")

                async def follow_links() -> None:
                    follower.follow(self.aggregate.followed())
                    if self.settings.links and not self._watches_mirrors:
                        self._watches_mirrors = True
                        watcher = MirrorWatcher(self.aggregate, workers_client)
                        tasks.create_task(watcher.run(), name="mirrors")
                    await self._probe(tasks)

                await follow_links()
                tasks.create_task(self._announce(), name="ready file")
                tasks.create_task(self._follow_reloads(follow_links, stop), name="reloads")
                await stop.wait()
                raise _Stopped
        except* _Stopped:
            log.info("stopping")

    async def _follow_reloads(
        self, follow_links: Callable[[], Awaitable[None]], stop: asyncio.Event
    ) -> None:
        """Replace links when asked. A file that cannot be taken over stops the aggregator.

        Whoever supervises it starts it again, with all of that file.
        """
        while True:
            await self._reload.wait()
            self._reload.clear()
            try:
                await self._take_over_links()
            except (OSError, ValueError) as error:
                log.error("the settings cannot be reloaded, so the aggregator stops: %s", error)
                stop.set()
                return
            await follow_links()
            if self._is_announced:
                self._write_ready_file()
            log.info("reloaded links: %s", ", ".join(each.name for each in self.settings.links))

    async def _take_over_links(self) -> None:
        """Replace the links that differ, and no other ones. Raises OSError or ValueError."""
        if self._file is None:
            raise ValueError("they are in no file")
        file = await asyncio.to_thread(self._file.read_again)
        wanted = parse_settings(file.text)
        if replace(wanted, links=self.settings.links) != self.settings:
            raise ValueError("more than links has changed")
        self.aggregate.set_links(wanted, _probes(wanted, self.aggregate.probes))
        self.settings, self._file = wanted, file

    async def _announce(self) -> None:
        """Write the ready file when the aggregator is ready."""
        while not self.aggregate.is_ready:  # noqa: ASYNC110 - three loops contribute to it
            await asyncio.sleep(READY_POLL_SECONDS)
        self._write_ready_file()
        self._is_announced = True
        log.info("ready")

    def _write_ready_file(self) -> None:
        content = {
            "pid": os.getpid(),
            "state": "running",
            "http_host": self.settings.http_host,
            "http_scheme": self.settings.http_security.scheme,
            "http_port": self.http_port,
            "settings": None if self._file is None else self._file.digest,
        }
        self._ready_file.parent.mkdir(parents=True, exist_ok=True)
        partial = self._ready_file.with_name(f".{self._ready_file.name}.{os.getpid()}")
        partial.write_text(json.dumps(content))
        partial.replace(self._ready_file)

    async def _probe(self, tasks: asyncio.TaskGroup) -> None:
        """Run the probes of the aggregate."""
        if self._prober is None and self.aggregate.probes:
            self._prober = (await asyncio.to_thread(_prober_type))(
                self.settings,
                why_unreadable=self.aggregate.why_unreadable,
                on_latency=self._metrics.record_probe_latency,
                monotonic_ms=_monotonic_ms,
            )
            tasks.create_task(self._prober.run(), name="probes")
        if self._prober is not None:
            self._prober.follow(self.aggregate.probes)

    def _open_aggregate(self) -> KafkaClient:
        return KafkaClient(
            self.settings.bootstrap,
            client_id="heliograph-aggregator",
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            security=self.settings.security,
        )


def _probes(settings: AggregatorSettings, kept: Mapping[str, LinkProbe]) -> dict[str, LinkProbe]:
    """Return the probes of the links; those of links that stay as they are go on."""
    run_id = secrets.token_hex(RUN_ID_BYTES)
    return link_probes(settings, run_id=run_id, now_ms=_monotonic_ms(), kept=kept)


def _prober_type() -> type[Prober]:
    """Return the class; only this function loads aiokafka."""
    from aggregator.probe.prober import Prober

    return Prober


def _monotonic_ms() -> float:
    return time.monotonic() * 1000


class _Stopped(Exception):
    """Ends the task group from inside."""
