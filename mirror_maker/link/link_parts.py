"""The parts of one link on one worker, made from its clients and settings: a composition root."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from random import Random
from typing import NamedTuple

from local_cluster.client.model import TopicPartition
from mirror_maker.audit.auditor import LinkAuditor
from mirror_maker.audit.cpu_budget import CpuBudget
from mirror_maker.backoff import Backoff
from mirror_maker.clusters.origins import Origins
from mirror_maker.clusters.throttle import Rates
from mirror_maker.clusters.topic_directory import Directory
from mirror_maker.completeness.publisher import CompletenessPublisher
from mirror_maker.completeness.statements import Statements
from mirror_maker.flow.copy_session import BatchTracer, CopySession
from mirror_maker.flow.fetcher import SourceAccess
from mirror_maker.flow.fetcher_pool import FetcherPool
from mirror_maker.flow.flow import Flow
from mirror_maker.flow.flow_factory import FlowFactory
from mirror_maker.link.compacted_topics import CompactedTopics
from mirror_maker.link.discovery import TopicDiscovery
from mirror_maker.link.map_flusher import MapFlusher
from mirror_maker.link.operator_controls import OperatorControls
from mirror_maker.link.owned_copies import LinkMarks, OwnedCopies
from mirror_maker.ports import Clock, DataSink, DataSource, Lease
from mirror_maker.repair.copy_repair import CopyRepair
from mirror_maker.repair.examiner import Examiner
from mirror_maker.resume.source_log import LinkLogs
from mirror_maker.settings import Limits, LinkSettings
from mirror_maker.stores.cluster_maps import ClusterMaps
from mirror_maker.stores.link_stores import LinkStores
from mirror_maker.stores.map_write_health import MapWrites


class LinkClients(NamedTuple):
    """The clients of one link; each role has its own connections."""

    source: DataSource
    """For requests to the source."""
    polls: DataSource
    """For long polls of the source alone."""
    sink: DataSink
    """For requests to the target, and writes of state."""


class AuditResources(NamedTuple):
    """What the audits of a worker share."""

    reader: DataSource
    """A client of the target that nothing else waits for."""
    budget: CpuBudget
    cpu_ns: Callable[[], int]
    """Returns the CPU time used so far."""


class LinkParts:
    """The parts of one link."""

    def __init__(
        self,
        settings: LinkSettings,
        limits: Limits,
        clients: LinkClients,
        *,
        worker_id: str,
        lease: Lease,
        clock: Clock,
        random: Random,
        offer: Callable[[CopySession], None],
        audit: AuditResources | None = None,
        tracer: BatchTracer | None = None,
    ) -> None:
        """`offer` hands a session with a batch to the sender of its target broker. Without `audit`
        nothing is audited."""
        self.settings = settings
        self.limits = limits
        self.clients = clients
        self.worker_id = worker_id
        self.lease = lease
        self.clock = clock
        self.directory = Directory()
        self.stores = LinkStores(
            clients.sink, settings, worker_id=worker_id, clock=clock, random=random
        )
        self.map_writes = MapWrites()
        self.rates = Rates()
        self.new_backoff = partial(
            Backoff, limits.back_off_ms_min, limits.back_off_ms_max, random, clock
        )
        self.origins = Origins(clients.source) if settings.origin == "local" else None
        self.flows: dict[TopicPartition, Flow] = {}
        """This worker's flows, by source partition."""
        self.offer = offer
        self._audit = audit
        self._logs = LinkLogs(
            clients.source, clients.sink, self.directory, settings, limits, self.origins
        )
        self.completeness = self._completeness(random) if limits.completeness_ms else None
        """Publishes until when the copies are complete, unless it is turned off."""
        self.flow_factory = FlowFactory(
            settings,
            limits,
            logs=self._logs,
            sink=clients.sink,
            directory=self.directory,
            stores=self.stores,
            origins=self.origins,
            target_rate=self.rates.target,
            map_writes=self.map_writes,
            tracer=tracer,
            lease=lease,
            clock=clock,
            new_backoff=self.new_backoff,
            new_pauses=partial(Backoff, limits.pause_ms_min, limits.pause_ms_max, random, clock),
            on_ready=offer,
        )

    def _completeness(self, random: Random) -> CompletenessPublisher:
        return CompletenessPublisher(
            self.settings.name,
            self.flows,
            Statements(self.worker_id, random.getrandbits(64)),
            self.stores.completeness,
            logs=self._logs,
            directory=self.directory,
            clock=self.clock,
            backoff=self.new_backoff(),
            completeness_ms=self.limits.completeness_ms,
        )

    def fetchers(self, on_failure: Callable[[int, str | None], None]) -> FetcherPool:
        access = SourceAccess(
            link=self.settings.name,
            polls=self.clients.polls,
            requests=self.clients.source,
            rate=self.rates.source,
            origins=self.origins,
            fetch_bytes_max=self._logs.fetch_bytes_max,
            hurry=self.directory.hurry,
            leader_epoch_of=self.directory.source_leader_epoch,
            on_sampled=(
                (lambda at: None) if self.completeness is None else self.completeness.look_at
            ),
        )
        return FetcherPool(
            access,
            self.flows,
            limits=self.limits,
            clock=self.clock,
            new_backoff=self.new_backoff,
            on_failure=on_failure,
        )

    def operator_controls(
        self,
        known: Callable[[], Collection[TopicPartition]],
        on_changed: Callable[[], None],
        on_ordered: Callable[[TopicPartition], None],
    ) -> OperatorControls:
        return OperatorControls(
            self.settings,
            self.flows,
            known,
            on_changed,
            on_ordered,
            stores=self.stores,
            rates=self.rates,
            clock=self.clock,
            controls_ms=self.limits.controls_ms,
            backoff=self.new_backoff(),
        )

    def owned_copies(self) -> OwnedCopies:
        maps = ClusterMaps(self.clients.source, LinkMarks)
        return OwnedCopies(self.settings, self.stores.map_store, maps)

    def discovery(
        self,
        target_alias: str,
        owned_copies: OwnedCopies,
        on_round: Callable[[Iterable[int], bool], None],
        on_opened: Callable[[], Awaitable[None]],
    ) -> TopicDiscovery:
        return TopicDiscovery(
            self.settings,
            target_alias,
            self.flows,
            owned_copies,
            on_round,
            source=self.clients.source,
            sink=self.clients.sink,
            directory=self.directory,
            stores=self.stores,
            clock=self.clock,
            discovery_ms=self.limits.discovery_ms,
            backoff=self.new_backoff(),
            on_opened=on_opened,
        )

    def compacted_topics(self) -> CompactedTopics:
        return CompactedTopics(
            self.clients.source, self.clock, link=self.settings.name, backoff=self.new_backoff()
        )

    def map_flusher(
        self, compacted_topics: CompactedTopics, on_may_take_changed: Callable[[], None]
    ) -> MapFlusher:
        return MapFlusher(
            self.settings.name,
            self.flows,
            on_may_take_changed,
            stores=self.stores,
            compacted_topics=compacted_topics,
            map_writes=self.map_writes,
            lease=self.lease,
            clock=self.clock,
            map_flush_ms=self.limits.map_flush_ms,
        )

    def copy_repair(self) -> CopyRepair:
        examiner = Examiner(
            self.settings,
            logs=self._logs,
            sink=self.clients.sink,
            directory=self.directory,
            stores=self.stores,
            clock=self.clock,
            quiet_ms=self.limits.epoch_quiet_ms,
        )
        return CopyRepair(self.settings, examiner, self.stores.map_store, self.stores.journal)

    def auditor(self) -> LinkAuditor | None:
        if self._audit is None:
            return None
        return LinkAuditor(
            self.settings,
            self.flows,
            worker_id=self.worker_id,
            reader=self._audit.reader,
            sink=self.clients.sink,
            logs=self._logs,
            directory=self.directory,
            stores=self.stores,
            limits=self.limits,
            clock=self.clock,
            backoff=self.new_backoff(),
            budget=self._audit.budget,
            cpu_ns=self._audit.cpu_ns,
        )
