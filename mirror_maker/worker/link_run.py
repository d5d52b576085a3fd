"""One link of a worker process: its parts, their clients and their tasks, from start to stop.

The links of a worker share its clients of the target, its senders and its group. All else belongs
to one link, so a link is replaced while the others copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from local_cluster.client.auth.security import ClientSecurity
from mirror_maker.clusters.cluster_client import MirrorClient
from mirror_maker.clusters.missing_rights import MissingRights
from mirror_maker.flow.copy_session import CopySession
from mirror_maker.group_sync.group_syncer import GroupSyncer
from mirror_maker.group_sync.mm2_topics import Mm2Topics
from mirror_maker.group_sync.position_placer import PositionPlacer
from mirror_maker.group_sync.source_group import SourceGroupCommitter
from mirror_maker.link.link import LinkWorker
from mirror_maker.link.link_parts import AuditResources, LinkClients, LinkParts
from mirror_maker.ports import Clock
from mirror_maker.rights_sync.rights_syncer import RightsSyncer
from mirror_maker.settings import LinkSettings, MirrorSettings
from mirror_maker.topic_sync.copy_deletion import CopyDeleter
from mirror_maker.topic_sync.topic_syncer import TopicSyncer
from mirror_maker.worker.status import link_status
from mirror_maker.worker.worker_group import WorkerGroup

if TYPE_CHECKING:
    from mirror_maker.metrics.batch_spans import BatchSpans


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedParts:
    """What the links of a worker share."""

    settings: MirrorSettings
    """Of the worker; its links are not read."""
    clock: Clock
    random: Random
    sink: MirrorClient
    """Client of the target for all that does not wait."""
    group: WorkerGroup
    offer: Callable[[CopySession], None]
    audit: AuditResources | None
    placer: PositionPlacer
    new_client: Callable[[str, ClientSecurity, MissingRights, str], MirrorClient]
    """Opens a client: bootstrap, security, where refusals are noted, its role."""
    new_rights: Callable[[str, ClientSecurity], MissingRights]
    missing_rights: Callable[[str, MissingRights], list[str]]
    """Return what a link is refused, a sentence each."""
    spans: Callable[[str], BatchSpans]


class LinkRun:
    """One link as it runs; `start`, then `stop`."""

    def __init__(self, link: LinkSettings, shared: SharedParts) -> None:
        """Raises ValueError if the exporter of spans is not installed."""
        self.settings = link
        self._shared = shared
        self._clients: list[MirrorClient] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._source_rights = shared.new_rights(link.source_alias, link.source_security)
        source, sink, target = self._client("ask"), shared.sink, shared.settings.target_alias
        self.worker = worker = self._worker(source)
        self._topic_sync: TopicSyncer | None = None
        if link.sync_configs or link.sync_acls:
            self._topic_sync = TopicSyncer(worker, source, sink)
        self._rights_sync: RightsSyncer | None = None
        if link.syncs_rights:
            self._rights_sync = RightsSyncer(worker, source, sink)
        self._deletions = CopyDeleter(worker, source, sink, target)
        self._positions: SourceGroupCommitter | None = None
        if link.source_group:
            committer = SourceGroupCommitter(worker, self._client("positions"), link.source_group)
            self._positions = committer
        self._mm2_topics: Mm2Topics | None = None
        self._group_sync: GroupSyncer | None = None
        groups = self._client("groups") if link.translates_groups else None
        shared.placer.add(link.name, worker.map_store, groups)
        if groups is not None:
            if link.mm2_topics != "off":
                self._mm2_topics = Mm2Topics(worker, groups, sink, target)
            self._group_sync = GroupSyncer(worker, groups, sink, self._mm2_topics, shared.placer)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Begin to work, with tasks in this group."""
        self._tasks = [tasks.create_task(each) for each in self._work()]

    def cancel(self) -> None:
        """Cancel the tasks, once the worker has finished."""
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        """Finish the batches in flight, and end everything of the link."""
        await self.worker.finish()
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._shared.placer.remove(self.settings.name)
        await self.close()

    async def close(self) -> None:
        """Close the link's own clients."""
        await asyncio.gather(*(client.close() for client in self._clients))

    def status(self) -> dict[str, Any]:
        return link_status(
            self.worker,
            self._group_sync,
            self._topic_sync,
            self._rights_sync,
            self._deletions,
            self._positions,
        )

    def _work(self) -> Iterator[Coroutine[Any, Any, None]]:
        yield self.worker.run()
        yield self._deletions.run()
        for part in (
            self._mm2_topics,
            self._group_sync,
            self._topic_sync,
            self._rights_sync,
            self._positions,
        ):
            if part is not None:
                yield part.run()

    def _client(self, role: str) -> MirrorClient:
        link = self.settings
        client = self._shared.new_client(
            link.source_bootstrap, link.source_security, self._source_rights, f"{link.name}-{role}"
        )
        self._clients.append(client)
        return client

    def _worker(self, source: MirrorClient) -> LinkWorker:
        link, shared = self.settings, self._shared
        parts = LinkParts(
            link,
            shared.settings.limits,
            LinkClients(source, self._client("poll"), shared.sink),
            worker_id=shared.settings.worker_id,
            lease=shared.group,
            clock=shared.clock,
            random=shared.random,
            offer=shared.offer,
            audit=shared.audit,
            tracer=shared.spans(link.name) if link.trace_batches else None,
        )
        return LinkWorker(
            parts,
            shared.settings.target_alias,
            shared.group.on_known_changed,
            missing_rights=lambda: shared.missing_rights(link.name, self._source_rights),
        )
