"""The broker process: opens its log directories, joins the cluster, serves, and stops cleanly.

Order of the start: log directories, sockets bound (so that port 0 is known), ZooKeeper and the
controller's first image, group commit, serving, ready file. The stop goes the other way, and
writes the clean-shutdown markers last.

A log directory that fails takes its replicas offline, and the others continue. The last one to fail
ends the broker.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import local_cluster.handlers.all
from local_cluster.client_metrics.receiver import ClientMetrics
from local_cluster.clock import Clock, SystemClock
from local_cluster.controller.member.control_plane import ControlPlane
from local_cluster.controller.member.current_configs import CurrentConfigs
from local_cluster.controller.model.encoded_topics import EncodedTopics
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.fetch_sessions.follower_sessions import FollowerSessions
from local_cluster.fetch_sessions.session_cache import SLOTS_MAX_DEFAULT, FetchSessionCache
from local_cluster.groups.coordinator import GroupCoordinator
from local_cluster.handlers.services import RequestContext
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.directory.offset_checkpoints import Checkpoint
from local_cluster.log.disk.cold_reads import ColdReads
from local_cluster.log.disk.disk_work import Deletion, LogDirectoryError
from local_cluster.log.disk.files import OsFiles
from local_cluster.monitoring.monitored import MonitoredBroker
from local_cluster.monitoring.service import Monitoring
from local_cluster.network import ConnectToPeer, connect_to_peer
from local_cluster.quotas.client_quotas import ClientQuotas
from local_cluster.quotas.quota_store import QuotaStore
from local_cluster.ready_file import write_ready_file
from local_cluster.replication.follower.followed_replicas import FollowedReplicas
from local_cluster.replication.isr_proposer import IsrProposer
from local_cluster.replication.log_dir_moves import LogDirMoves
from local_cluster.replication.offline_reporter import OfflineReporter
from local_cluster.replication.partition import Partition
from local_cluster.replication.replica_set import ReplicaSet
from local_cluster.replication.stray_replicas import StrayReplicas
from local_cluster.replication.throttle import ReplicationThrottle
from local_cluster.security.authentication.user_store import UserStore
from local_cluster.security.authorization.acl_store import AclStore
from local_cluster.server.applied_configs import AppliedConfigs
from local_cluster.server.broker_rights import BrokerRights
from local_cluster.server.flushing.group_commit import GroupCommit
from local_cluster.server.housekeeping import SPACE_PROBE_INTERVAL_MS, Housekeeping
from local_cluster.server.listeners import Listeners, bind
from local_cluster.server.log_cleaner import LogCleaner
from local_cluster.server.metadata_listeners import MetadataListeners
from local_cluster.settings import BrokerSettings
from local_cluster.transactions.broker_connections import BrokerConnections
from local_cluster.transactions.coordinator import TransactionCoordinator
from local_cluster.transactions.producer_ids import ProducerIds

FIRST_IMAGE_WAIT_MS_MAX: Final = 5_000
HAND_OVER_WAIT_MS_MAX: Final = 5_000

log = logging.getLogger(__name__)

assert local_cluster.handlers.all, "its import registers every handler"


class Broker:
    """One running broker. What its handlers use is public, see handlers/services.py."""

    def __init__(self, settings: BrokerSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock: Clock = clock or SystemClock()
        self.metadata = MetadataCache(settings.broker_id)
        self.configs = CurrentConfigs(settings, self.metadata)
        self.encoded_topics = EncodedTopics(self.metadata)
        self.fatal: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.log_directories = LogStore(
            [Path(each) for each in settings.log_dirs],
            OsFiles(),
            broker_id=settings.broker_id,
            clock=self.clock,
            on_failed=self._on_directory_failed,
        )
        self._flushers: Mapping[LogDirectory, GroupCommit] = {
            each: GroupCommit(each.path, partial(self.log_directories.fail, each))
            for each in self.log_directories.all
            if settings.flush == "fsync"
        }
        self.cold_reads = ColdReads()
        connect = partial(connect_to_peer, security=settings.inter_broker_security)
        throttle = ReplicationThrottle(settings.broker_id, settings.config, self.clock.monotonic_ms)
        self._fetchers = FollowedReplicas(
            settings,
            self.metadata,
            self.clock,
            throttle=throttle,
            connect=connect,
            after_truncation=self._after_truncation,
        )
        self.replicas = ReplicaSet(
            broker_id=settings.broker_id,
            broker_config=self.configs,
            directories=self.log_directories,
            cache=self.metadata,
            flusher_of=self._flushers.get,
            clock=self.clock,
            throttle=throttle,
            fetching=self._fetchers,
            isr_may_expand=lambda: self._isr_proposer.propose_soon(),
        )
        self.log_dir_moves = LogDirMoves(
            settings.broker_id,
            self.log_directories,
            self.replicas,
            self.metadata,
            self.clock,
            flusher_of=self._flushers.get,
            checkpoint=self._checkpoint,
        )
        self._log_cleaner = LogCleaner(
            self.configs, self.replicas, self.log_directories, self.clock
        )
        self._listeners = Listeners(settings)
        self.client_metrics = ClientMetrics(settings, self.clock, self.metadata)
        self.control_plane = ControlPlane(
            settings,
            self.clock,
            self.metadata,
            self._on_change,
            bound_ports=self._listeners.ports,
            connect=connect,
            report=self.replicas.report,
        )
        self.scram_users = UserStore(self.control_plane.coordination)
        self.control_plane.follow_znodes(self.scram_users)
        self.quotas = ClientQuotas(settings.config, settings.broker_principals)
        set_quotas = (self.quotas.set_quotas, self._listeners.admission.set_quotas)
        self.quota_store = QuotaStore(self.control_plane.coordination, *set_quotas)
        self.control_plane.follow_znodes(self.quota_store)
        self._strays = StrayReplicas(
            self.log_directories,
            self.metadata,
            set_aside=lambda stray: self.replicas.set_aside(stray, "its topic does not exist"),
            is_connected=lambda: self.control_plane.is_connected,
        )
        self._offline_reporter = OfflineReporter(
            self.replicas, self.control_plane.announce_replicas
        )
        self._isr_proposer = IsrProposer(self.replicas, self.control_plane.propose_isr)
        self.producer_ids = ProducerIds(self.control_plane.allocate_producer_ids)
        self.groups = GroupCoordinator(self)
        self.follower_sessions = FollowerSessions(_new_session_id)
        self.fetch_sessions = FetchSessionCache(
            _new_session_id,
            slots_max=settings.config_int(
                "max.incremental.fetch.session.cache.slots", SLOTS_MAX_DEFAULT
            ),
        )
        self.transactions = TransactionCoordinator(self, connect)
        self._rights = BrokerRights(
            settings, self.clock, self.control_plane, on_change=self.fetch_sessions.read_all_again
        )
        self.mirror_producers = self._rights.mirror_producers
        self.credential_access = self._rights.credential_access
        self._metadata_listeners = MetadataListeners(
            {
                "groups": self.groups.on_metadata_changes,
                "replicas": self.replicas.apply,
                "broker configs": AppliedConfigs(self.configs, self.metadata, self.replicas).apply,
                "connection limits": self._listeners.limits_of(self.configs),
                "stray replicas": self._strays.apply,
                "moves between log directories": self.log_dir_moves.apply,
                "log cleaner": self._log_cleaner.apply,
            },
            {
                "groups": self.groups.on_leadership,
                "transactions": self.transactions.on_leadership,
            },
        )
        self.replicas.add_leadership_listener(self._metadata_listeners.notify_leadership)
        self._housekeeping = Housekeeping(settings, self.log_directories, self.replicas, self.clock)
        self._is_serving = False
        self._monitoring = self._monitor(connect)

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, name: str
    ) -> bool:
        authorizer = self._rights.authorizer
        return authorizer is None or authorizer.authorize(context, operation, resource_type, name)

    def authorize_any(self, context: RequestContext, operation: str, resource_type: str) -> bool:
        authorizer = self._rights.authorizer
        return authorizer is None or authorizer.authorize_any(context, operation, resource_type)

    def holds(self, context: RequestContext, operation: str, resource_type: str, name: str) -> bool:
        authorizer = self._rights.authorizer
        return authorizer is None or authorizer.holds(context, operation, resource_type, name)

    def holds_for_topic(self, context: RequestContext, operation: str, topic: str) -> bool:
        authorizer = self._rights.authorizer
        return authorizer is None or authorizer.holds_for_topic(context, operation, topic)

    def may(self, context: RequestContext, operation: str, resource_type: str, name: str) -> bool:
        authorizer = self._rights.authorizer
        return authorizer is None or authorizer.may(context, operation, resource_type, name)

    @property
    def acls(self) -> AclStore | None:
        """The ACLs; None without an authorizer."""
        return self._rights.store

    @property
    def rights_version(self) -> int:
        """Grows when ACLs change."""
        return 0 if self._rights.authorizer is None else self._rights.authorizer.version

    async def start(self) -> None:
        """Join the cluster and serve. Raises OSError, KafkaError, CoordinationUnavailable."""
        await self._monitoring.start()
        self.log_directories.open(
            config=LogConfig.of({}, self.settings.config), flushes=bool(self._flushers)
        )
        for directory, flusher in self._flushers.items():
            if directory in self.log_directories.live:
                flusher.start()
        await self.groups.start()
        await self.transactions.start()
        self._isr_proposer.start()
        await self.control_plane.start()
        assert self.metadata.cluster_id is not None, "joining sets the cluster id"
        self.log_directories.bind_cluster_id(self.metadata.cluster_id)
        self._strays.directories_bound()
        await self.scram_users.start()
        await self.quota_store.start()
        # Before the listeners: without a complete image of the ACLs nobody is served.
        await self._rights.start()
        self._listeners.open(self, self.cold_reads)
        # Before the controller's first image clients would see an empty cluster.
        await self.control_plane.wait_informed(FIRST_IMAGE_WAIT_MS_MAX)
        self._housekeeping.start()
        self._log_cleaner.start()
        self._offline_reporter.start()
        self._is_serving = True
        write_ready_file(self.settings, self.ports, self.http_port)
        log.info("broker %d of %s is up", self.settings.broker_id, self.settings.cluster)
        if self.settings.former_inter_broker_listener is not None:
            log.warning(
                "whoever connects to listener %s counts as a broker, until the move of the brokers"
                " ends (former_inter_broker_listener)",
                self.settings.former_inter_broker_listener,
            )

    async def stop(self) -> None:
        """Hand leadership over, leave the cluster, finish appends, close the logs cleanly."""
        self._is_serving = False
        await self._hand_over()
        Path(self.settings.ready_file).unlink(missing_ok=True)  # noqa: ASYNC240
        await self._offline_reporter.stop()
        await self._housekeeping.stop()
        await self._log_cleaner.stop()
        await self.log_dir_moves.stop()
        self._listeners.close()
        self.cold_reads.stop()
        self.client_metrics.stop()
        await self._isr_proposer.stop()
        await self._fetchers.stop()
        await self.scram_users.stop()
        await self.quota_store.stop()
        await self._rights.stop()
        await self.control_plane.stop()
        await self.transactions.stop()
        await self.groups.stop()
        for flusher in self._flushers.values():
            await flusher.stop()
        high_watermarks = self._housekeeping.high_watermarks()
        for directory in self.log_directories.all:
            is_live = directory in self.log_directories.live
            try:
                directory.close(
                    clean=is_live and not self.fatal.done(), high_watermarks=high_watermarks
                )
            except LogDirectoryError as error:
                log.error("no clean stop: %s", error)
                self.log_directories.fail(directory, error)
        await self._monitoring.stop()

    async def checkpoint(self, partitions: Collection[tuple[str, int]]) -> None:
        """Write the offset checkpoints of these partitions. Raises OSError."""
        homes = dict.fromkeys(self.log_directories.of(*each) for each in partitions)
        for directory in homes:
            if directory is not None:
                await self._checkpoint(directory)

    @property
    def ports(self) -> Mapping[str, int]:
        """The bound port of each listener, by name."""
        return self._listeners.ports

    @property
    def http_port(self) -> int | None:
        """The bound port of health and metrics, None without one."""
        return self._monitoring.http_port

    # -- inside -----------------------------------------------------------------------------

    def _monitor(self, connect: ConnectToPeer) -> Monitoring:
        settings = self.settings
        port = settings.http_port
        return Monitoring(
            MonitoredBroker(
                settings=settings,
                clock=self.clock,
                metadata=self.metadata,
                control_plane=self.control_plane,
                replicas=self.replicas,
                log_directories=self.log_directories,
                log_cleaner=self._log_cleaner,
                isr_proposer=self._isr_proposer,
                groups=self.groups,
                transactions=self.transactions,
                fetch_sessions=self.fetch_sessions,
                cold_reads=self.cold_reads,
                rights=self._rights,
                meters=self._listeners.meters,
                listeners=self._listeners.counters,
                request_memory=self._listeners.memory,
                certificates=self._listeners.certificates,
                quotas=self.quotas,
                client_metrics=self.client_metrics,
            ),
            BrokerConnections(self, connect),
            None if port is None else bind(settings.http_host, port),
            lambda: self._is_serving,
        )

    def _on_change(self, changes: Changes) -> None:
        self._metadata_listeners.notify(changes)

    async def _hand_over(self) -> None:
        """Give up leadership while this broker still responds, if there are others."""
        is_wanted = self.settings.config_bool("controlled.shutdown.enable", True)
        if not is_wanted or not self._listeners.are_open or len(self.metadata.brokers) < 2:
            return
        if not await self.control_plane.request_controlled_shutdown(HAND_OVER_WAIT_MS_MAX):
            log.warning("not all leadership was handed over within %d ms", HAND_OVER_WAIT_MS_MAX)

    async def _checkpoint(self, directory: LogDirectory) -> None:
        await asyncio.to_thread(self._prepare_checkpoint(directory).run)

    def _prepare_checkpoint(self, directory: LogDirectory) -> Checkpoint:
        return directory.prepare_checkpoint(self._housekeeping.high_watermarks())

    async def _after_truncation(self, replica: Partition, deletion: Deletion) -> None:
        """Delete what a truncation left over, and write checkpoints that do not name it.

        On a full disk this is retried for as long as it takes.
        """
        directory = self.log_directories.of(replica.topic, replica.partition)
        while directory is not None and directory in self.log_directories.live:
            checkpoint = self._prepare_checkpoint(directory)
            try:
                await asyncio.to_thread(deletion.run)
                await asyncio.to_thread(checkpoint.run)
                return
            except OSError as error:
                directory.disk.note(error)
                if not directory.disk.is_full:
                    self.log_directories.fail(directory, error)
                    return
            # Nothing is appended to the log before this is done.
            await asyncio.sleep(SPACE_PROBE_INTERVAL_MS / 1000)

    def _on_directory_failed(self, directory: LogDirectory, error: BaseException) -> None:
        if not self.log_directories.live:
            log.critical("the last log directory failed, so the broker ends: %s", error)
            self._on_fatal(error)
            return
        log.critical(
            "log directory %s failed: its replicas are offline until the next start: %s",
            directory.path,
            error,
        )
        # Not at once: the caller may be a write to one of these logs.
        self._offline_reporter.check_soon()

    def _on_fatal(self, error: BaseException) -> None:
        if not self.fatal.done():
            self.fatal.set_result(error)


def _new_session_id() -> int:
    return random.randint(1, (1 << 31) - 1)
