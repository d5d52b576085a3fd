"""Loops that keep an `Aggregate` up to date: its topics, and the status of its mirror workers.

So no HTTP request waits for a cluster or a worker.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable, Iterator
from typing import Any, Final

from aiohttp import ClientSession

from aggregator.aggregate import Aggregate
from aggregator.ports import ClusterReader
from aggregator.worker_clocks import ClockSkew, clock_skew
from aggregator.worker_places import AllowedPlaces
from aggregator.worker_requests import WorkerRequests, addresses_of, open_session
from local_cluster.client.admin.group_members import DescribedMember, describe_members
from local_cluster.client.group import CoordinatorClient
from local_cluster.http_security.addresses import url_of
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats.workers import worker_address, workers_group_id

REFRESH_SECONDS: Final = 2.0
"""Seconds between two requests for the topics, and for the status of each worker."""
DISCOVERY_SECONDS: Final = 5.0
"""Seconds between two requests for the workers: a new worker is known after at most this long."""
WORKERS_MAX: Final = 256
"""Workers that are asked; further members of the group are left out."""

log = logging.getLogger(__name__)


class TopicWatcher:
    """Keeps the topics of an `Aggregate` up to date; `run` until cancelled."""

    def __init__(self, client: ClusterReader, aggregate: Aggregate) -> None:
        self._client = client
        self._aggregate = aggregate

    async def run(self) -> None:
        """Refresh for ever. A failure becomes the aggregate's problem, and is logged once."""
        while True:
            await self.step()
            await asyncio.sleep(REFRESH_SECONDS)

    async def step(self) -> None:
        """Refresh once."""
        try:
            cluster = await self._client.metadata()
        except KafkaError as error:
            if self._aggregate.problem is None:
                log.warning("cannot read the topics of the aggregate: %s", error)
            self._aggregate.problem = str(error)
            return
        self._aggregate.set_topics(cluster)


class MirrorWatcher:
    """Keeps the status of the mirror workers in an `Aggregate` up to date; `run` until cancelled.

    The workers of a target are members of a group on it, and publish their HTTP addresses there
    (`mirror_maker.formats.workers`). Whoever may join that group can publish any address, so only
    workers at the places of the settings are asked. A worker that does not respond is left out, and
    its earlier status is dropped: an old lag would look like a current one.
    """

    def __init__(self, aggregate: Aggregate, client: CoordinatorClient) -> None:
        """The client is used for nothing else: the coordinator may be away for long."""
        self._aggregate = aggregate
        self._client = client
        self._alias = aggregate.settings.aggregate
        self._machine = socket.gethostname()
        settings = aggregate.settings
        self._places = AllowedPlaces(settings.workers_allowed, self._machine)
        self._requests = WorkerRequests(settings.workers_security)
        self._urls: frozenset[str] = frozenset()
        self._refused: frozenset[str] = frozenset()
        self._failure = ""

    async def run(self) -> None:
        async with (
            open_session() as session,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(self._discover_forever())
            while True:
                await self.refresh(session)
                await asyncio.sleep(REFRESH_SECONDS)

    async def _discover_forever(self) -> None:
        while True:
            await self.discover()
            # Somebody who has just started the first worker waits for it.
            await asyncio.sleep(DISCOVERY_SECONDS if self._urls else REFRESH_SECONDS)

    async def discover(self) -> None:
        """Read the workers' addresses from the group; keep the known ones if that fails."""
        try:
            members = await describe_members(self._client, workers_group_id(self._alias))
        except KafkaError as error:
            if self._failure != str(error):
                log.warning("cannot read the group of the mirror workers: %s", error)
            self._failure = str(error)
            return
        self._failure = ""
        if members is not None:
            self._places.addresses = await addresses_of(self._places.names)
            self._choose(members)

    def _choose(self, members: Iterable[DescribedMember]) -> None:
        """Keep the URLs of members at allowed places; log the others once."""
        allowed, refused = set[str](), set[str]()
        for host, port in _addresses(members, self._machine):
            known = self._places.host_to_ask(host, port) if len(allowed) < WORKERS_MAX else None
            urls = refused if known is None else allowed
            urls.add(url_of(self._requests.scheme, known or host, port))
        self._urls = frozenset(allowed)
        new = sorted(refused - self._refused)[:WORKERS_MAX]
        self._refused = frozenset(sorted(refused)[:WORKERS_MAX])
        if new:
            log.warning(
                "mirror workers are not asked at %s: `worker_hosts` of the aggregator does not have"
                " their hosts",
                ", ".join(new),
            )

    async def refresh(self, session: ClientSession) -> None:
        """Request the status of every worker once."""
        asked = await asyncio.gather(*(self._status(session, url) for url in self._urls))
        found = [each for each in asked if each is not None]
        self._aggregate.set_workers([status for status, _ in found])
        self._aggregate.clocks = [skew for _, skew in found if skew is not None]

    async def _status(
        self, session: ClientSession, url: str
    ) -> tuple[dict[str, Any], ClockSkew | None] | None:
        """Return a worker's status and clock; None without a response, or from another service."""
        asked_ms = self._aggregate.now_ms()
        status = await self._requests.status(session, url)
        if not isinstance(status, dict) or status.get("target") != self._alias:
            return None
        return status, clock_skew(status, asked_ms, self._aggregate.now_ms())


def _addresses(members: Iterable[DescribedMember], here: str) -> Iterator[tuple[str, int]]:
    for member in members:
        try:
            address = worker_address(member.metadata)
        except ValueError as error:
            log.debug("member %s: %s", member.member_id, error)
            continue
        host = None if address is None else address.host_from(member.client_host, here)
        if address is not None and host is not None:
            yield host, address.port
