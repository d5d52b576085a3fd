"""The composition root of flows: makes each part of a flow with just what it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from local_cluster.client.model import TopicPartition
from mirror_maker.backoff import Backoff
from mirror_maker.clusters.origins import Origins
from mirror_maker.clusters.partition_log import TargetLog
from mirror_maker.clusters.throttle import Throttle
from mirror_maker.clusters.topic_directory import Directory
from mirror_maker.copy.mm2_offset_syncs import FlowSyncs
from mirror_maker.copy.replicator import PartitionReplicator
from mirror_maker.flow.copy_permit import CopyPermit
from mirror_maker.flow.copy_session import BatchTracer, CopySession
from mirror_maker.flow.flow import Flow
from mirror_maker.flow.topic_presence import TopicPresence
from mirror_maker.flow.trouble_handler import FlushMap, TroubleHandler
from mirror_maker.formats import FlowKey, MapTopic, extend_map
from mirror_maker.metrics.latency import FlowMeasures
from mirror_maker.ports import Clock, DataSink, Lease
from mirror_maker.resume.foreign_records import accepted_ranges, may_hold_foreign
from mirror_maker.resume.generations import GenerationOpener
from mirror_maker.resume.log_comparison import LogComparison
from mirror_maker.resume.mm2_takeover import Mm2Offsets
from mirror_maker.resume.opening import FlowOpener
from mirror_maker.resume.proof import Proof, Prover
from mirror_maker.resume.quiet_period import QuietPeriod
from mirror_maker.resume.raise_epoch import EpochRaiser
from mirror_maker.resume.source_log import LinkLogs, SourceLog
from mirror_maker.resume.start_lookup import StartLookup
from mirror_maker.rules.trouble import Trouble
from mirror_maker.settings import Limits, LinkSettings
from mirror_maker.stores.journal_store import GapStore
from mirror_maker.stores.link_stores import LinkStores
from mirror_maker.stores.map_write_health import MapWrites


class _ForeignRule:
    """The policy of one flow for foreign records; see `ForeignPolicy`."""

    def __init__(
        self, settings: LinkSettings, topic: str, journal: GapStore, state: MapTopic
    ) -> None:
        self.may_appear = may_hold_foreign(settings, topic)
        self.are_skipped = settings.for_topic(topic).on.of(Trouble.FOREIGN) == "skip"
        self._journal = journal
        self._state = state

    def are_accepted(self, flow: FlowKey, target_from: int, target_to: int) -> bool:
        opening = self._state.opening(flow)
        if opening is None:
            return False
        return accepted_ranges(self._journal, opening).covers(target_from, target_to)


class FlowFactory:
    """Makes the flows of one link."""

    def __init__(
        self,
        settings: LinkSettings,
        limits: Limits,
        *,
        logs: LinkLogs,
        sink: DataSink,
        directory: Directory,
        stores: LinkStores,
        origins: Origins | None,
        target_rate: Throttle,
        map_writes: MapWrites,
        tracer: BatchTracer | None,
        lease: Lease,
        clock: Clock,
        new_backoff: Callable[[], Backoff],
        new_pauses: Callable[[], Backoff],
        on_ready: Callable[[CopySession], None],
    ) -> None:
        """`on_ready` is called with a session that may have a batch to take."""
        self._settings = settings
        self._limits = limits
        self._logs = logs
        self._directory = directory
        self._stores = stores
        self._origins = origins
        self._target_rate = target_rate
        self._map_writes = map_writes
        self._tracer = tracer
        self._lease = lease
        self._clock = clock
        self._new_backoff = new_backoff
        self._new_pauses = new_pauses
        self._on_ready = on_ready
        self._mm2_offsets = Mm2Offsets(sink, logs.sink_offsets, settings.source_alias)
        self._proofs = asyncio.Semaphore(limits.proofs_at_once_max)

    def make(
        self, at: TopicPartition, *, on_moved: Callable[[Flow], None], flush_map: FlushMap
    ) -> Flow:
        """Make the flow of a source partition; see `Flow` for the callbacks."""
        settings, stores = self._settings, self._stores
        source = self._logs.source(at)
        target = self._logs.target(at._replace(topic=settings.copy_name(at.topic)))
        name = f"{settings.name}: {source.at} -> {target.at}"
        quiet_period = QuietPeriod(target, self._clock, self._limits.epoch_quiet_ms)
        prover = self._prover(source, target, quiet_period)
        permit = self._permit(at)
        backoff = self._new_backoff()
        troubles = TroubleHandler(
            name,
            source,
            target,
            settings.for_topic(at.topic).on,
            map_store=stores.map_store,
            journal=stores.journal,
            lease=self._lease,
            backoff=self._new_backoff(),
            pauses=self._new_pauses(),
        )
        measures = FlowMeasures()
        return Flow(
            name,
            source.at,
            target.at,
            prover=prover,
            epochs=EpochRaiser(
                prover,
                target.at,
                map_store=stores.map_store,
                receipts=stores.audit_topics,
                lease=self._lease,
                clock=self._clock,
                quiet_ms=self._limits.epoch_quiet_ms,
            ),
            start_session=lambda proof, on_moved: self._start_session(
                proof, source, target, permit, troubles, measures, on_moved
            ),
            presence=TopicPresence(
                source.at,
                target.at,
                directory=self._directory,
                map_store=stores.map_store,
                lease=self._lease,
                clock=self._clock,
            ),
            permit=permit,
            troubles=troubles,
            quiet_period=quiet_period,
            journal=stores.journal,
            state=stores.map_store.state,
            measures=measures,
            clock=self._clock,
            backoff=backoff,
            proofs=self._proofs,
            on_moved=on_moved,
            flush_map=flush_map,
        )

    def _permit(self, at: TopicPartition) -> CopyPermit:
        return CopyPermit(
            at,
            state=self._stores.map_store.state,
            map_writes=self._map_writes,
            target_rate=self._target_rate,
            lease=self._lease,
            clock=self._clock,
        )

    def _prover(self, source: SourceLog, target: TargetLog, quiet_period: QuietPeriod) -> Prover:
        settings, stores = self._settings, self._stores
        logs = LogComparison(
            source, target, stores.journal, settings, self._clock, self._limits.epoch_quiet_ms
        )
        opener = FlowOpener(
            source,
            target,
            settings,
            map_store=stores.map_store,
            journal=stores.journal,
            logs=logs,
            start=StartLookup(
                source,
                target,
                settings,
                was_found_first=self._directory.was_found_first,
                map_store=stores.map_store,
                mm2_offsets=self._mm2_offsets,
                clock=self._clock,
            ),
            generations=GenerationOpener(target, stores.map_store, quiet_period, self._lease),
            lease=self._lease,
        )
        return Prover(
            source,
            target,
            settings,
            directory=self._directory,
            map_store=stores.map_store,
            journal=stores.journal,
            opener=opener,
            logs=logs,
            lease=self._lease,
        )

    def _start_session(
        self,
        proof: Proof,
        source: SourceLog,
        target: TargetLog,
        permit: CopyPermit,
        troubles: TroubleHandler,
        measures: FlowMeasures,
        on_moved: Callable[[], None],
    ) -> CopySession:
        settings, stores = self._settings, self._stores
        for block in proof.block.unwritten():
            extend_map(proof.offset_map, block)
        replicator = PartitionReplicator(
            producer_id=proof.opening.producer_id,
            producer_epoch=proof.opening.producer_epoch,
            source_next=proof.source_next,
            next_sequence=proof.next_sequence,
            block=proof.block,
            offset_map=proof.offset_map,
            syncs=FlowSyncs(source.at) if settings.mm2_topics != "off" else None,
            foreign_ids=frozenset() if self._origins is None else self._origins.foreign_ids,
            pending_bytes_max=self._limits.partition_pending_bytes_max,
            coalesces=settings.coalesce_batches,
            last_epoch=proof.last_epoch,
            gaps=proof.gaps,
            receipts=proof.receipts,
            splitter=troubles.splitter,
            rules=source.rules,
            target_known_to=proof.high_watermark,
        )
        return CopySession(
            proof.flow,
            source,
            target,
            replicator,
            splitter=troubles.splitter,
            permit=permit,
            foreign=_ForeignRule(settings, source.at.topic, stores.journal, stores.map_store.state),
            measures=measures,
            tracer=self._tracer,
            clock=self._clock,
            hurry=self._directory.hurry,
            on_ready=self._on_ready,
            on_moved=on_moved,
        )
