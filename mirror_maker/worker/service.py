"""One worker process: clients, links, senders, group, HTTP port and the clean stop.

A broker answers the requests of one connection in order. So every kind of request that may wait has
a client of its own: long polls (one per source), produced data, and the group's joins.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from local_cluster.client.auth.security import ClientSecurity
from local_cluster.client.group import GroupFencedError
from local_cluster.client.model import TopicPartition
from local_cluster.http_security.settings import OPEN
from local_cluster.starting import SettingsFile
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.audit.cpu_budget import CpuBudget
from mirror_maker.clusters.cluster_client import MirrorClient
from mirror_maker.clusters.missing_rights import MissingRights
from mirror_maker.flow.flow import Flow
from mirror_maker.flow.sender import SenderPool
from mirror_maker.formats.controls import Controls
from mirror_maker.formats.workers import WorkerAddress
from mirror_maker.group_sync.position_placer import PositionPlacer
from mirror_maker.link.link import LinkWorker
from mirror_maker.link.link_parts import AuditResources
from mirror_maker.model import FlowState
from mirror_maker.ports import Clock, SystemClock
from mirror_maker.repair.plan import How
from mirror_maker.settings import MirrorSettings, parse_settings
from mirror_maker.worker.late_imports import http_guard, http_server_type
from mirror_maker.worker.link_run import LinkRun, SharedParts
from mirror_maker.worker.worker_group import WorkerGroup

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from local_cluster.http_security.guard import HttpGuard
    from mirror_maker.metrics.batch_spans import BatchSpans
    from mirror_maker.worker.http import StatusServer

FIRST_DISCOVERY_MS_MAX: Final = 2_000
"""How long the first join waits until the links have found their topics, to save a rebalance."""
FIRST_DISCOVERY_POLL_MS: Final = 20
COPYING_FIRST_MS_MAX: Final = 1_000
"""How long a starting worker delays its HTTP port, so that it copies sooner."""
CONTROL_MS_MAX: Final = 8_000
"""How long an operator's order waits for the target; its client waits longer."""
RETRIES_BEFORE_FORGOTTEN: Final = 3
"""A refused right is forgotten if it was not refused again for this many of the longest pauses."""

Done = TypeVar("Done")

log = logging.getLogger(__name__)


class MirrorService:
    """A mirror worker; `run` until `stop` is called or another process takes its place."""

    def __init__(self, settings: MirrorSettings, settings_file: SettingsFile | None = None) -> None:
        """`settings_file` has the settings; without it links cannot be reloaded.

        Raises ValueError if the exporter of spans is not installed.
        """
        self._settings = settings
        self._clock: Clock = SystemClock()
        self._random = Random()
        self._clients: list[MirrorClient] = []
        self._target_rights = self._rights(settings.target_alias, settings.target_security)
        self._sink = self._target_client("ask")
        self._sink_data = self._target_client("produce")
        self._group = WorkerGroup(settings, self._target_client("group"))
        self._senders = SenderPool(self._sink_data, settings.limits)
        budget = CpuBudget(settings.limits.audit_cpu_share)
        self._audit: AuditResources | None = None
        if budget.share:
            self._audit = AuditResources(self._target_client("audit"), budget, time.thread_time_ns)
        self._tracing: TracerProvider | None = None
        self._shared = SharedParts(
            settings=settings,
            clock=self._clock,
            random=self._random,
            sink=self._sink,
            group=self._group,
            offer=self._senders.offer,
            audit=self._audit,
            # Requests about groups may wait for a coordinator, so they have their own connections.
            placer=PositionPlacer(self._target_client("shared"), settings.target_alias),
            new_client=self._new_client,
            new_rights=self._rights,
            missing_rights=self._missing_rights,
            spans=self._spans,
        )
        self._runs = [LinkRun(link, self._shared) for link in settings.links]
        self._group.attach(self._links)
        self._file = settings_file
        self._reload = asyncio.Event()
        self._port: int | None = None
        """Of the HTTP, once the ready file is written."""
        self._stop = asyncio.Event()
        self._http: StatusServer | None = None

    def stop(self) -> None:
        """Begin the clean stop."""
        self._stop.set()

    def reload(self) -> None:
        """Begin to take over the links of the settings file as it is now."""
        self._reload.set()

    async def run(self) -> None:
        """Work until stopped.

        Raises GroupFencedError if another process runs as this worker, and SecurityError if the
        tokens or certificates of its HTTP port cannot be used.
        """
        settings = self._settings
        # A port that is to be secured fails before any work, an open one is made ready later.
        guard = None if settings.http_security == OPEN else http_guard(settings.http_security)
        listener = _listen(settings.http_host, settings.http_port)
        port: int = listener.getsockname()[1]
        self._group.address = WorkerAddress(settings.http_host, port, socket.gethostname())
        ready_file = Path(settings.ready_file)
        try:
            async with asyncio.TaskGroup() as tasks:
                background = [
                    tasks.create_task(self._take_part()),
                    tasks.create_task(self._announce(listener, guard)),
                    tasks.create_task(self._senders.run()),
                    tasks.create_task(self._follow_reloads(tasks)),
                ]
                for run in self._runs:
                    run.start(tasks)
                await self._stop.wait()
                log.info("stopping")
                background.pop().cancel()  # no more links are replaced
                await asyncio.gather(*(link.finish() for link in self._links))
                background[0].cancel()
                with suppress(asyncio.CancelledError):
                    await background[0]
                await self._group.membership.leave()
                for task in background[1:]:
                    task.cancel()
                for run in self._runs:
                    run.cancel()
        except* GroupFencedError as errors:
            raise GroupFencedError(str(errors.exceptions[0])) from None
        finally:
            _remove(ready_file)
            if self._http is not None:
                await self._http.stop()
            listener.close()
            await asyncio.gather(*(client.close() for client in self._clients))
            await asyncio.gather(*(run.close() for run in self._runs))
            if self._tracing is not None:
                await asyncio.to_thread(self._tracing.shutdown)

    def status(self) -> dict[str, Any]:
        """Return the JSON of `/status`."""
        membership = self._group.membership
        return {
            "worker_id": self._settings.worker_id,
            "target": self._settings.target_alias,
            "now_ms": self._clock.now_ms(),
            "group": {
                "joined": self._group.is_joined,
                "member_id": membership.member_id or None,
                "generation_id": membership.generation_id,
                "is_leader": membership.is_leader,
                "failure": membership.failure,
                "unknown_links": list(self._group.unknown_links),
            },
            "links": [run.status() for run in self._runs],
        }

    async def control(self, link: str, change: Callable[[Controls], Controls]) -> Controls:
        """Do `POST /pause` and its like, for at most `CONTROL_MS_MAX`.

        Raises LookupError, KafkaError, and what `change` raises. After a timeout the order may
        still take effect, when the target answers again.
        """
        worker = {worker.name: worker for worker in self._links}[link]
        return await self._in_time(worker.control(change))

    async def repair(
        self, link: str, topic: str, partition: int, how: How | None
    ) -> dict[str, Any]:
        """Do `/repair`: examine, or with `how` order a repair, for at most `CONTROL_MS_MAX`.

        Raises LookupError for an unknown link, NoRepairError, KafkaError.
        """
        worker = {worker.name: worker for worker in self._links}[link]
        at = TopicPartition(topic, partition)
        return await self._in_time(worker.examine(at) if how is None else worker.repair(at, how))

    async def _in_time(self, work: Awaitable[Done]) -> Done:
        """Await the work; KafkaError if the clusters do not answer, and what the work raises."""
        try:
            async with asyncio.timeout(CONTROL_MS_MAX / 1000):
                return await work
        except TimeoutError as error:
            raise KafkaError(
                ErrorCode.request_timed_out,
                f"cluster {self._settings.target_alias} does not answer within "
                f"{CONTROL_MS_MAX // 1000} s; it may still be written when the cluster answers, "
                "so give the order again then",
            ) from error

    def retry(self, link: str, topic: str | None, partition: int | None) -> list[dict[str, Any]]:
        """Do `POST /retry`. Raises LookupError for an unknown link."""
        workers = {worker.name: worker for worker in self._links}
        return [
            {"topic": at.topic, "partition": at.partition}
            for at in workers[link].retry(topic, partition)
        ]

    # -- parts ----------------------------------------------------------------------------------

    @property
    def _links(self) -> list[LinkWorker]:
        return [run.worker for run in self._runs]

    def _target_client(self, role: str) -> MirrorClient:
        settings = self._settings
        client = self._new_client(
            settings.target_bootstrap, settings.target_security, self._target_rights, role
        )
        self._clients.append(client)
        return client

    def _new_client(
        self, bootstrap: str, security: ClientSecurity, rights: MissingRights, role: str
    ) -> MirrorClient:
        return MirrorClient(
            bootstrap, client_id=self._client_id(role), security=security, rights=rights
        )

    def _rights(self, alias: str, security: ClientSecurity) -> MissingRights:
        forgotten_ms = RETRIES_BEFORE_FORGOTTEN * self._settings.limits.retry_ms_max
        return MissingRights(alias, security, forgotten_ms=forgotten_ms)

    def _missing_rights(self, link: str, at_source: MissingRights) -> list[str]:
        """Return what a link is refused, a sentence each.

        A refusal at the target counts if it concerns a topic of this link, or of no link.
        """
        now_ms = self._clock.monotonic_ms()
        sentences = [at_source.sentence(right) for right in at_source.known(now_ms)]
        for right in self._target_rights.known(now_ms):
            users = {worker.name for worker in self._links if worker.uses(right.topic)}
            if link in users or not users:
                sentences.append(self._target_rights.sentence(right))
        return sentences

    def _client_id(self, role: str) -> str:
        return f"heliograph-mirror-{self._settings.worker_id}-{role}"

    def _spans(self, link: str) -> BatchSpans:
        """Return the spans of a link; only this method loads OpenTelemetry."""
        from mirror_maker.metrics.batch_spans import BatchSpans, open_provider

        if self._tracing is None:
            self._tracing = open_provider(self._settings.worker_id)
        return BatchSpans(self._tracing, link)

    async def _take_part(self) -> None:
        waited_ms = 0
        while waited_ms < FIRST_DISCOVERY_MS_MAX and not all(
            link.directory.is_loaded or link.failure for link in self._links
        ):
            await self._clock.sleep(FIRST_DISCOVERY_POLL_MS)
            waited_ms += FIRST_DISCOVERY_POLL_MS
        await self._group.membership.run()

    async def _announce(self, listener: socket.socket, guard: HttpGuard | None) -> None:
        """Serve HTTP, and write the ready file when this worker is a member of its group.

        The HTTP modules are nearly half of all that a worker imports. While a thread imports them,
        every response that copying waits for is delayed, because only one thread runs at a time.
        """
        await self._let_copying_begin()
        server_type = await asyncio.to_thread(http_server_type)
        self._http = server_type(
            self.status,
            lambda: self._group.is_joined,
            self.retry,
            self.control,
            self.repair,
            guard or http_guard(OPEN),
        )
        await self._http.start(listener)
        while not self._group.is_joined:
            await self._clock.sleep(FIRST_DISCOVERY_POLL_MS)
        self._port = listener.getsockname()[1]
        self._write_ready_file()
        log.info("running, http on %s:%d", self._settings.http_host, self._port)

    def _write_ready_file(self) -> None:
        document = {
            "pid": os.getpid(),
            "state": "running",
            "http_host": self._settings.http_host,
            "http_scheme": self._settings.http_security.scheme,
            "http_port": self._port,
            "settings": None if self._file is None else self._file.digest,
        }
        _replace(Path(self._settings.ready_file), json.dumps(document))

    async def _follow_reloads(self, tasks: asyncio.TaskGroup) -> None:
        """Replace links when asked. A file that cannot be taken over stops the worker.

        Whoever supervises it starts it again, with all of that file.
        """
        while True:
            await self._reload.wait()
            self._reload.clear()
            try:
                await self._take_over_links(tasks)
            except (OSError, ValueError) as error:
                log.error("the settings cannot be reloaded, so this worker stops: %s", error)
                self.stop()

    async def _take_over_links(self, tasks: asyncio.TaskGroup) -> None:
        """Replace the links that differ, and no other ones. Raises OSError or ValueError."""
        if self._file is None:
            raise ValueError("they are in no file")
        file = await asyncio.to_thread(self._file.read_again)
        wanted = parse_settings(file.text)
        if replace(wanted, links=self._settings.links) != self._settings:
            raise ValueError("more than links has changed")
        kept = {run.settings.name: run for run in self._runs if run.settings in wanted.links}
        gone = [run for run in self._runs if run.settings.name not in kept]
        await asyncio.gather(*(run.stop() for run in gone))
        new = {
            link.name: LinkRun(link, self._shared) for link in wanted.links if link.name not in kept
        }
        self._runs = [(kept | new)[link.name] for link in wanted.links]
        self._group.attach(self._links)
        for run in new.values():
            run.start(tasks)
        if any(run.settings.name not in new for run in gone):
            self._group.on_known_changed()  # the flows of a changed link follow its discovery
        self._settings, self._file = wanted, file
        if self._port is not None:
            self._write_ready_file()
        log.info("reloaded links: %s", ", ".join(sorted({*new, *(r.worker.name for r in gone)})))

    async def _let_copying_begin(self) -> None:
        """Wait until every flow of this worker has begun, for at most `COPYING_FIRST_MS_MAX`."""
        waited_ms = 0
        while waited_ms < COPYING_FIRST_MS_MAX and not (
            self._group.is_joined
            and all(_has_begun(flow) for link in self._links for flow in link.flows.values())
        ):
            await self._clock.sleep(FIRST_DISCOVERY_POLL_MS)
            waited_ms += FIRST_DISCOVERY_POLL_MS


def _has_begun(flow: Flow) -> bool:
    """Return whether the flow has copied something, has nothing to copy, or cannot copy."""
    if flow.current_state() in (FlowState.STARTING, FlowState.CATCHING_UP, FlowState.RUNNING):
        return flow.totals().records > 0 or flow.lag().records == 0
    return True


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; clients wait until the server starts. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def _replace(path: Path, text: str) -> None:
    """Write a file so that a reader sees all of it or nothing."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.replace(path)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
