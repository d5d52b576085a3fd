"""One broker of the simulated cluster: the real parts, on a simulated disk, network and clock.

What server/broker.py puts together, with PORTS replaced: `SimDisk` for files, `SimNetwork` for
sockets, `SimCoordination` for ZooKeeper, the loop's virtual time for the clock, and a flusher that
takes time instead of a thread.
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
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.controller.zk.coordination import CoordinationUnavailable
from local_cluster.fetch_sessions.follower_sessions import FollowerSessions
from local_cluster.fetch_sessions.sessions import FetchSessions
from local_cluster.groups.coordinator import GroupCoordinator
from local_cluster.handlers.services import BrokerServices
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.disk.disk_work import Deletion, LogDirectoryError
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.replication.follower.replica_fetchers import ReplicaFetchers
from local_cluster.replication.partition import Partition
from local_cluster.replication.replica_set import ReplicaSet
from local_cluster.replication.throttle import ReplicationThrottle
from local_cluster.server.isr_changes import IsrChanges
from local_cluster.server.log_dir_moves import LogDirMoves
from local_cluster.server.replica_watch import ReplicaWatch
from local_cluster.server.stray_replicas import StrayReplicas
from local_cluster.settings import BrokerSettings, Listener
from local_cluster.transactions.coordinator import TransactionCoordinator
from local_cluster.transactions.producer_ids import ProducerIds
from local_cluster.wire.errors import KafkaError
from tests.sim.broker.sim_clock import SimClock
from tests.sim.broker.sim_disk import SimDisk
from tests.sim.broker.sim_flusher import SimFlusher
from tests.sim.broker.sim_network import SimLine, SimNetwork
from tests.sim.broker.sim_process import HOME, OUTSIDE, SimProcess
from tests.sim.broker.sim_serving import LISTENER, Body, dispatch
from tests.sim.broker.sim_zookeeper import SimCoordination, SimZooKeeper

Result = TypeVar("Result")

CHECKPOINT_SECONDS = 2.0
SPACE_PROBE_SECONDS = 0.5
HAND_OVER_MS_MAX = 3_000
START_AGAIN_SECONDS = 0.5


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
        flusher_of: Callable[[SimBroker, Random], SimFlusher] = SimFlusher,
    ) -> None:
        super().__init__()
        self.id = broker_id
        self.host = host_of(broker_id)
        self.disk = SimDisk()
        self.life = 0
        self.failure: BaseException | None = None
        """What ended a process by itself: no fault does that."""
        self.is_leaving = False
        """It was told to shut down."""
        self.is_serving = False
        """It joined the cluster and takes requests."""
        self._network = network
        self._zookeeper = zookeeper
        self._random = random
        self._flusher_of = flusher_of
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
        """Start a process on what the disk has; it joins when it can."""
        assert not self.is_alive
        self.life += 1
        self.is_alive = True
        self.is_leaving = False
        context = contextvars.copy_context()
        context.run(HOME.set, self)
        self._context = context
        self.is_serving = False
        loop = asyncio.get_running_loop()
        try:
            context.run(self._build)
        except LogDirectoryError:
            if self.disk.is_well:
                raise
            self.kill()
            loop.call_later(
                START_AGAIN_SECONDS, self._start_if_down, self.life, context=OUTSIDE.copy()
            )
            return
        self._joining = loop.create_task(self._join(), context=context)
        self._joining.add_done_callback(self._ended)

    def _start_if_down(self, life: int) -> None:
        if not self.is_alive and self.life == life:
            self.start()

    def _start_again(self, life: int) -> None:
        if self.is_alive and self.life == life:
            self.kill()
            self.start()

    def _ended(self, joining: asyncio.Task[None]) -> None:
        if not joining.cancelled():
            self.failure = joining.exception()

    def _build(self) -> None:
        self.clock = SimClock(self._random.randint(-500, 500))
        self.metadata = MetadataCache()
        self.log_directories = LogStore(
            [Path(each) for each in self.settings.log_dirs],
            self.disk,
            broker_id=self.id,
            clock=self.clock,
            on_failed=self._on_directory_failed,
        )
        self.flusher = (
            self._flusher_of(self, self._random) if self.settings.flush == "fsync" else None
        )
        throttle = ReplicationThrottle(self.id, self.settings.config, self.clock.monotonic_ms)
        self.fetchers = ReplicaFetchers(
            self.settings,
            self.metadata,
            self.clock,
            throttle=throttle,
            after_cut=self._after_cut,
            open_line=self._open_line,
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
            isr_may_change=lambda partition: self.isr_changes.may_change(partition),
        )
        self.log_dir_moves = LogDirMoves(
            self.id,
            self.log_directories,
            self.replicas,
            self.metadata,
            self.clock,
            flusher_of=lambda _: self.flusher,
            checkpoint=self._checkpoint,
        )
        self.coordination = SimCoordination(self._zookeeper, self._random)
        self.control_plane = ControlPlane(
            self.settings,
            self.clock,
            self.metadata,
            self._on_change,
            coordination=self.coordination,
            new_uuid=self._new_uuid,
            open_line=self._open_line,
            report=self.replicas.report,
        )
        self.strays = StrayReplicas(
            self.replicas, self.metadata, lambda: self.control_plane.is_connected
        )
        self.replica_watch = ReplicaWatch(self.replicas, self.control_plane.announce_replicas)
        self.isr_changes = IsrChanges(self.replicas, self.control_plane.propose_isr)
        self.groups = GroupCoordinator(cast(BrokerServices, self), new_uuid=self._new_uuid)
        self.replicas.on_leadership(self.groups.on_leadership)
        self.producer_ids = ProducerIds(self.control_plane.allocate_producer_ids)
        self.transactions = TransactionCoordinator(cast(BrokerServices, self), self._open_line)
        self.replicas.on_leadership(self.transactions.on_leadership)
        self.fetch_sessions = FetchSessions(lambda: self._random.randint(1, 1 << 30), slots_max=10)
        self.follower_sessions = FollowerSessions(lambda: self._random.randint(1, 1 << 30))
        self.log_directories.open(
            config=LogConfig.of({}, self.settings.config), flushes=self.flusher is not None
        )

    async def _join(self) -> None:
        self.isr_changes.start()
        await self.groups.start()
        await self.transactions.start()
        try:
            await self.control_plane.start()
        except (CoordinationUnavailable, KafkaError):
            # The process ends, and its supervisor starts it again.
            asyncio.get_running_loop().call_soon(self._start_again, self.life)
            return
        assert self.metadata.cluster_id is not None
        try:
            self.log_directories.bind_cluster_id(self.metadata.cluster_id)
        except LogDirectoryError:
            if self.disk.is_well:
                raise
            asyncio.get_running_loop().call_soon(self._start_again, self.life)
            return
        self.strays.directories_bound()
        self._network.listen(self.host, self.serve)
        self.is_serving = True
        self.replica_watch.start()
        await asyncio.gather(self._checkpoints(), self._space())

    async def _checkpoints(self) -> None:
        """What server/housekeeping.py does every few seconds."""
        while True:
            await asyncio.sleep(CHECKPOINT_SECONDS)
            for directory in self.log_directories.live:
                try:
                    directory.checkpoint(self._high_watermarks())
                    directory.collect_garbage().run()
                except OSError as error:
                    directory.disk.note(error)

    async def _space(self) -> None:
        """Write a full disk again as soon as it takes a probe."""
        while True:
            await asyncio.sleep(SPACE_PROBE_SECONDS)
            for directory in self.log_directories.live:
                if not directory.disk.is_full:
                    continue
                try:
                    directory.prepare_probe().run()
                except OSError as error:
                    directory.disk.note(error)
                    continue
                directory.disk.freed()
                self.replicas.resume()

    def pause(self) -> None:
        """SIGSTOP."""
        self.stop_running()
        self._network.stopped_hosts.add(self.host)
        self.coordination.fall_silent()

    def proceed(self) -> None:
        """SIGCONT."""
        self._network.stopped_hosts.discard(self.host)
        self.go_on()

    def shut_down(self, gone: Callable[[], None]) -> None:
        """SIGTERM, a clean stop; `gone` is called when it is over."""
        self.is_leaving = True

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
        """In the order of server/broker.py."""
        if len(self.metadata.brokers) > 1:
            await self.control_plane.hand_over(HAND_OVER_MS_MAX)
        self._joining.cancel()
        await self.replica_watch.stop()
        await self.log_dir_moves.stop()
        self._network.close(self.host)
        await self.isr_changes.stop()
        await self.fetchers.stop()
        await self.control_plane.stop()
        await self.transactions.stop()
        await self.groups.stop()
        live = self.log_directories.live
        for directory in self.log_directories.all:
            try:
                directory.close(clean=directory in live, high_watermarks=self._high_watermarks())
            except LogDirectoryError:
                # No clean stop, and the next start finds no marker of one.
                if self.disk.is_well:
                    raise

    def kill(self) -> None:
        """kill -9: what was written is on the machine."""
        self._end()
        self.disk.process_died()

    def crash(self) -> None:
        """The power is gone: what was not synced may be lost."""
        self._end()
        self.disk.power_lost(self._random)

    def _end(self) -> None:
        self._network.stopped_hosts.discard(self.host)
        self.coordination.die()
        self._network.close(self.host)
        self.end_tasks()

    def as_its_own(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Have the broker do something; it dies with the broker."""
        return asyncio.get_running_loop().create_task(work, context=self._context)

    # -- what others call -----------------------------------------------------------------------

    def serve(self, connection: str, api: int, version: int, body: bytes) -> asyncio.Future[Body]:
        """Dispatch a request now; its answer's body later. As server/connection.py does."""
        future: asyncio.Future[Body] = asyncio.get_running_loop().create_future()
        self._context.copy().run(dispatch, self, connection, api, version, body, future)
        return future

    def authorize(self, *_: object) -> bool:
        return True

    async def checkpoint(self, partitions: Collection[tuple[str, int]]) -> None:
        """Have the offsets of these partitions on the disk; a moment later. As server/broker.py."""
        homes = dict.fromkeys(self.log_directories.of(*each) for each in partitions)
        for home in homes:
            if home is not None:
                checkpoint = home.prepare_checkpoint(self._high_watermarks())
                await asyncio.sleep(self._random.uniform(0.001, 0.01))
                checkpoint.run()

    def directory_failed(self, log: PartitionLog, error: BaseException) -> None:
        """An fsync of a log failed."""
        for directory in self.log_directories.live:
            if log.directory.startswith(directory.path + "/"):
                self.log_directories.fail(directory, error)

    # -- inside -----------------------------------------------------------------------------

    async def _open_line(self, host: str, port: int) -> SimLine:
        return await self._network.open_line(self.host, host)

    def _on_change(self, changes: Changes) -> None:
        self.groups.heard(changes)
        self.replicas.apply(changes)
        self.strays.heard(changes)
        self.log_dir_moves.heard(changes)

    async def _checkpoint(self, directory: LogDirectory) -> None:
        directory.checkpoint(self._high_watermarks())

    def _on_directory_failed(self, _: LogDirectory, __: BaseException) -> None:
        if self.log_directories.live:
            self.replica_watch.look()
            return
        # The process ends, and its supervisor starts it again.
        asyncio.get_running_loop().call_soon(self._start_again, self.life, context=OUTSIDE.copy())

    async def _after_cut(self, replica: Partition, deletion: Deletion) -> None:
        directory = self.log_directories.of(replica.topic, replica.partition)
        while directory is not None and directory in self.log_directories.live:
            checkpoint = directory.prepare_checkpoint(self._high_watermarks())
            await asyncio.sleep(self._random.uniform(0.001, 0.01))
            try:
                deletion.run()
                checkpoint.run()
                return
            except OSError as error:
                directory.disk.note(error)
                if not directory.disk.is_full:
                    self.log_directories.fail(directory, error)
                    return
            await asyncio.sleep(SPACE_PROBE_SECONDS)

    def _high_watermarks(self) -> dict[tuple[str, int], int]:
        return {(p.topic, p.partition): p.high_watermark for p in self.replicas}

    def _new_uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128), version=4)
