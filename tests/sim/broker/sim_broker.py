"""One broker of the simulated cluster: the real parts on a simulated disk, network and clock.

It composes the parts of server/broker.py with other PORTS: `SimDisk` for files, `SimNetwork` for
sockets, `SimCoordination` for ZooKeeper, virtual time for the clock, and a flusher that takes
virtual time instead of a thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import uuid
from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeVar, cast

from local_cluster.controller.member.control_plane import ControlPlane
from local_cluster.controller.member.current_configs import CurrentConfigs
from local_cluster.controller.model.encoded_topics import EncodedTopics
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.controller.zk.coordination import CoordinationUnavailable
from local_cluster.fetch_sessions.follower_sessions import FollowerSessions
from local_cluster.fetch_sessions.session_cache import FetchSessionCache
from local_cluster.groups.coordinator import GroupCoordinator
from local_cluster.handlers.services import BrokerServices
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.disk.disk_work import LogDirectoryError
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.quotas.client_quotas import ClientQuotas
from local_cluster.replication.follower.followed_replicas import FollowedReplicas
from local_cluster.replication.isr_proposer import IsrProposer
from local_cluster.replication.log_dir_moves import LogDirMoves
from local_cluster.replication.offline_reporter import OfflineReporter
from local_cluster.replication.replica_set import ReplicaSet
from local_cluster.replication.stray_replicas import StrayReplicas
from local_cluster.replication.throttle import ReplicationThrottle
from local_cluster.settings import BrokerSettings, Listener
from local_cluster.transactions.coordinator import TransactionCoordinator
from local_cluster.transactions.producer_ids import ProducerIds
from local_cluster.wire.errors import KafkaError
from tests.sim.broker.sim_clock import SimClock
from tests.sim.broker.sim_disk import SimDisk
from tests.sim.broker.sim_flusher import SimFlusher
from tests.sim.broker.sim_housekeeping import SimHousekeeping
from tests.sim.broker.sim_network import SimConnection, SimNetwork
from tests.sim.broker.sim_process import HOME, OUTSIDE, SimProcess
from tests.sim.broker.sim_serving import LISTENER, Body, dispatch
from tests.sim.broker.sim_zookeeper import SimCoordination, SimZooKeeper

Result = TypeVar("Result")

SHUTDOWN_MS_MAX = 3_000
RESTART_SECONDS = 0.5


def host_of(broker_id: int) -> str:
    return f"b{broker_id}"


class SimBroker(SimProcess):
    """A machine and the broker on it; `start` again after `kill`, `crash` or `shut_down`."""

    def __init__(
        self,
        broker_id: int,
        *,
        network: SimNetwork,
        zookeeper: SimZooKeeper,
        random: Random,
        flush: Literal["fsync", "page_cache"],
        config: Mapping[str, str],
        log_dirs: tuple[str, ...] = ("/data",),
    ) -> None:
        super().__init__()
        self.id = broker_id
        self.host = host_of(broker_id)
        self.disk = SimDisk()
        self.life = 0
        self.failure: BaseException | None = None
        """An exception that ended the process or a request; no fault leads to one."""
        self.is_shutting_down = False
        """After SIGTERM."""
        self.is_serving = False
        """It has joined the cluster and serves requests."""
        self._network = network
        self._zookeeper = zookeeper
        self._random = random
        self.settings = BrokerSettings(
            cluster="sim",
            broker_id=broker_id,
            rack=None,
            listeners=(
                Listener(
                    name=LISTENER,
                    host=self.host,
                    port=9092,
                    advertised_host=self.host,
                    advertised_port=9092,
                ),
            ),
            inter_broker_listener=LISTENER,
            zookeeper_connect="sim",
            zookeeper_session_timeout_ms=3_000,
            log_dirs=log_dirs,
            flush=flush,
            config=dict(config),
            ready_file="/ready",
        )

    # -- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a process on the present disk; it joins the cluster when it can."""
        assert not self.is_alive
        self.life += 1
        self.is_alive = True
        self.is_shutting_down = False
        context = contextvars.copy_context()
        context.run(HOME.set, self)
        self._context = context
        self.is_serving = False
        loop = asyncio.get_running_loop()
        try:
            context.run(self._build)
        except LogDirectoryError:
            if self.disk.is_healthy:
                raise
            self.kill()
            loop.call_later(RESTART_SECONDS, self._start_if_down, self.life, context=OUTSIDE.copy())
            return
        self._joining = loop.create_task(self._join(), context=context)
        self._joining.add_done_callback(self._ended)

    def _start_if_down(self, life: int) -> None:
        if not self.is_alive and self.life == life:
            self.start()

    def _restart(self, life: int) -> None:
        if self.is_alive and self.life == life:
            self.kill()
            self.start()

    def _ended(self, joining: asyncio.Task[None]) -> None:
        if not joining.cancelled():
            self.failure = joining.exception()

    def _build(self) -> None:
        self.clock = SimClock(self._random.randint(-500, 500))
        self.metadata = MetadataCache()
        self.encoded_topics = EncodedTopics(self.metadata)
        self.log_directories = LogStore(
            [Path(each) for each in self.settings.log_dirs],
            self.disk,
            broker_id=self.id,
            clock=self.clock,
            on_failed=self._on_directory_failed,
        )
        self.flusher = SimFlusher(self, self._random) if self.settings.flush == "fsync" else None
        throttle = ReplicationThrottle(self.id, self.settings.config, self.clock.monotonic_ms)
        self.fetchers = FollowedReplicas(
            self.settings,
            self.metadata,
            self.clock,
            throttle=throttle,
            after_truncation=lambda replica, deletion: self._housekeeping.after_truncation(
                replica, deletion
            ),
            connect=self._connect,
        )
        self.replicas = ReplicaSet(
            broker_id=self.id,
            broker_config=self.settings.config,
            directories=self.log_directories,
            cache=self.metadata,
            flusher_of=lambda _: self.flusher,
            clock=self.clock,
            throttle=throttle,
            fetching=self.fetchers,
            isr_may_expand=lambda: self.isr_proposer.propose_soon(),
        )
        self._housekeeping = SimHousekeeping(self.log_directories, self.replicas, self._random)
        self.log_dir_moves = LogDirMoves(
            self.id,
            self.log_directories,
            self.replicas,
            self.metadata,
            self.clock,
            flusher_of=lambda _: self.flusher,
            checkpoint=self._housekeeping.checkpoint_directory,
        )
        self._build_services()

    def _build_services(self) -> None:
        self.coordination = SimCoordination(self._zookeeper, self._random)
        self.control_plane = ControlPlane(
            self.settings,
            self.clock,
            self.metadata,
            self._on_change,
            coordination=self.coordination,
            new_uuid=self._new_uuid,
            connect=self._connect,
            report=self.replicas.report,
        )
        self.strays = StrayReplicas(
            self.log_directories,
            self.metadata,
            set_aside=lambda log: self.replicas.set_aside(log, "its topic is gone"),
            is_connected=lambda: self.control_plane.is_connected,
        )
        self.offline_reporter = OfflineReporter(self.replicas, self.control_plane.announce_replicas)
        self.isr_proposer = IsrProposer(self.replicas, self.control_plane.propose_isr)
        self.configs = CurrentConfigs(self.settings, self.metadata)
        self.groups = GroupCoordinator(cast(BrokerServices, self), new_uuid=self._new_uuid)
        self.replicas.add_leadership_listener(self.groups.on_leadership)
        self.producer_ids = ProducerIds(self.control_plane.allocate_producer_ids)
        self.transactions = TransactionCoordinator(cast(BrokerServices, self), self._connect)
        self.replicas.add_leadership_listener(self.transactions.on_leadership)
        self.fetch_sessions = FetchSessionCache(
            lambda: self._random.randint(1, 1 << 30), slots_max=10
        )
        self.follower_sessions = FollowerSessions(lambda: self._random.randint(1, 1 << 30))
        self.log_directories.open(
            config=LogConfig.of({}, self.settings.config), flushes=self.flusher is not None
        )

    async def _join(self) -> None:
        self.isr_proposer.start()
        await self.groups.start()
        await self.transactions.start()
        try:
            await self.control_plane.start()
        except (CoordinationUnavailable, KafkaError):
            # The process ends, and its supervisor restarts it.
            asyncio.get_running_loop().call_soon(self._restart, self.life)
            return
        assert self.metadata.cluster_id is not None
        try:
            self.log_directories.bind_cluster_id(self.metadata.cluster_id)
        except LogDirectoryError:
            if self.disk.is_healthy:
                raise
            asyncio.get_running_loop().call_soon(self._restart, self.life)
            return
        self.strays.directories_bound()
        self._network.listen(self.host, self.serve)
        self.is_serving = True
        self.offline_reporter.start()
        await self._housekeeping.run()

    def pause(self) -> None:
        """SIGSTOP."""
        self.stop_running()
        self._network.stopped_hosts.add(self.host)
        self.coordination.fall_silent()

    def resume(self) -> None:
        """SIGCONT."""
        self._network.stopped_hosts.discard(self.host)
        self.continue_running()

    def shut_down(self, gone: Callable[[], None]) -> None:
        """SIGTERM, a clean stop; calls `gone` at its end."""
        self.is_shutting_down = True

        def end(stopping: asyncio.Task[None]) -> None:
            if stopping.cancelled():
                return
            self.failure = stopping.exception()
            self._end()
            self.disk.process_died()
            gone()

        stopping = self.as_its_own(self._stop())
        stopping.add_done_callback(end, context=OUTSIDE.copy())

    async def _stop(self) -> None:
        """Stop the parts in the order of server/broker.py."""
        if len(self.metadata.brokers) > 1:
            await self.control_plane.request_controlled_shutdown(SHUTDOWN_MS_MAX)
        self._joining.cancel()
        await self.offline_reporter.stop()
        await self.log_dir_moves.stop()
        self._network.close(self.host)
        await self.isr_proposer.stop()
        await self.fetchers.stop()
        await self.control_plane.stop()
        await self.transactions.stop()
        await self.groups.stop()
        live = self.log_directories.live
        for directory in self.log_directories.all:
            try:
                directory.close(
                    clean=directory in live, high_watermarks=self._housekeeping.high_watermarks()
                )
            except LogDirectoryError:
                # No clean shutdown marker is written then.
                if self.disk.is_healthy:
                    raise

    def kill(self) -> None:
        """kill -9: all written data stays on the machine."""
        self._end()
        self.disk.process_died()

    def crash(self) -> None:
        """Power loss: unsynced data may be lost."""
        self._end()
        self.disk.power_lost(self._random)

    def _end(self) -> None:
        self._network.stopped_hosts.discard(self.host)
        self.coordination.die()
        self._network.close(self.host)
        self.end_tasks()

    def as_its_own(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Run work in the broker's process; it dies with the process."""
        return asyncio.get_running_loop().create_task(work, context=self._context)

    # -- calls from outside ---------------------------------------------------------------------

    def serve(self, connection: str, api: int, version: int, body: bytes) -> asyncio.Future[Body]:
        """Dispatch a request now, as server/connection.py does; return the future response."""
        future: asyncio.Future[Body] = asyncio.get_running_loop().create_future()
        services = cast(BrokerServices, self)
        self._context.copy().run(
            dispatch, services, self._failed, connection, api, version, body, future
        )
        return future

    acls = None
    mirror_producers = None
    credential_access = None
    rights_version = 0
    quotas = ClientQuotas({})

    def authorize(self, *_: object) -> bool:
        return True

    authorize_any = may = holds = holds_for_topic = authorize

    async def checkpoint(self, partitions: Collection[tuple[str, int]]) -> None:
        """Checkpoint the offsets of these partitions, after a moment. As server/broker.py."""
        await self._housekeeping.checkpoint(partitions)

    def directory_failed(self, log: PartitionLog, error: BaseException) -> None:
        """An fsync of a log failed."""
        for directory in self.log_directories.live:
            if log.directory.startswith(directory.path + "/"):
                self.log_directories.fail(directory, error)

    # -- internal ---------------------------------------------------------------------------

    def _failed(self, error: BaseException) -> None:
        self.failure = error

    async def _connect(self, host: str, port: int) -> SimConnection:
        return await self._network.connect(self.host, host)

    def _on_change(self, changes: Changes) -> None:
        self.groups.on_metadata_changes(changes)
        self.replicas.apply(changes)
        self.strays.apply(changes)
        self.log_dir_moves.apply(changes)

    def _on_directory_failed(self, _: LogDirectory, __: BaseException) -> None:
        if self.log_directories.live:
            self.offline_reporter.check_soon()
            return
        # The process ends, and its supervisor restarts it.
        asyncio.get_running_loop().call_soon(self._restart, self.life, context=OUTSIDE.copy())

    def _new_session_id(self) -> int:
        return self._random.randint(1, 1 << 30)

    def _new_uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128), version=4)
