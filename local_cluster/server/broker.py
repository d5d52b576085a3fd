"""The broker process: opens its log directories, joins the cluster, serves, and stops cleanly.

Order of starting: log directories, sockets bound (so that port 0 is known), ZooKeeper and the
controller's first image, group commit, serving, ready file. Stopping goes the other way, and
the clean-shutdown markers are written last.

A log directory that fails takes its replicas with it and the others go on; the last one to fail
ends the broker.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import socket
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import local_cluster.handlers.all
from local_cluster.clock import Clock, SystemClock
from local_cluster.controller.member.control_plane import ControlPlane
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.fetch_sessions.follower_sessions import FollowerSessions
from local_cluster.fetch_sessions.sessions import SLOTS_MAX_DEFAULT, FetchSessions
from local_cluster.groups.coordinator import GroupCoordinator
from local_cluster.handlers.registry import RequestContext
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.directory.offset_checkpoints import Checkpoint
from local_cluster.log.disk.disk_work import Deletion, LogDirectoryError
from local_cluster.log.disk.files import OsFiles
from local_cluster.replication.follower.replica_fetchers import ReplicaFetchers
from local_cluster.replication.partition import Partition
from local_cluster.replication.replica_set import ReplicaSet
from local_cluster.replication.throttle import ReplicationThrottle
from local_cluster.server.change_listeners import ChangeListeners
from local_cluster.server.cold_reads import ColdReads
from local_cluster.server.compaction import Compaction
from local_cluster.server.connection import BrokerConnection
from local_cluster.server.flusher import GroupCommit
from local_cluster.server.housekeeping import SPACE_PROBE_INTERVAL_MS, Housekeeping
from local_cluster.server.isr_changes import IsrChanges
from local_cluster.server.log_dir_moves import LogDirMoves
from local_cluster.server.replica_watch import ReplicaWatch
from local_cluster.server.stray_replicas import StrayReplicas
from local_cluster.settings import BrokerSettings
from local_cluster.transactions.coordinator import TransactionCoordinator
from local_cluster.transactions.producer_ids import ProducerIds

LISTEN_BACKLOG: Final = 512
FIRST_IMAGE_WAIT_MS_MAX: Final = 5_000
HAND_OVER_WAIT_MS_MAX: Final = 5_000

_log = logging.getLogger(__name__)

assert local_cluster.handlers.all, "importing it registers every handler"


class Broker:
    """One running broker; what its handlers use is public."""

    def __init__(self, settings: BrokerSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock: Clock = clock or SystemClock()
        self.metadata = MetadataCache()
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
        throttle = ReplicationThrottle(settings.broker_id, settings.config, self.clock.monotonic_ms)
        self._fetchers = ReplicaFetchers(
            settings, self.metadata, self.clock, throttle=throttle, after_cut=self._after_cut
        )
        self.replicas = ReplicaSet(
            broker_id=settings.broker_id,
            broker_config=settings.config,
            directories=self.log_directories,
            cache=self.metadata,
            flusher_of=self._flushers.get,
            clock=self.clock,
            throttle=throttle,
            fetching=self._fetchers,
            isr_may_change=lambda partition: self._isr_changes.may_change(partition),
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
        self._compaction = Compaction(settings, self.replicas, self.log_directories, self.clock)
        self._sockets = {item.name: _bind(item.host, item.port) for item in settings.listeners}
        self.control_plane = ControlPlane(
            settings,
            self.clock,
            self.metadata,
            self._on_change,
            bound_ports={name: bound.getsockname()[1] for name, bound in self._sockets.items()},
            report=self.replicas.report,
        )
        self._strays = StrayReplicas(
            self.replicas, self.metadata, lambda: self.control_plane.is_connected
        )
        self._replica_watch = ReplicaWatch(self.replicas, self.control_plane.announce_replicas)
        self._isr_changes = IsrChanges(self.replicas, self.control_plane.propose_isr)
        self.producer_ids = ProducerIds(self.control_plane.allocate_producer_ids)
        self.groups = GroupCoordinator(self)
        self.follower_sessions = FollowerSessions(_new_session_id)
        self.fetch_sessions = FetchSessions(
            _new_session_id,
            slots_max=settings.config_int(
                "max.incremental.fetch.session.cache.slots", SLOTS_MAX_DEFAULT
            ),
        )
        self.transactions = TransactionCoordinator(self)
        self._listeners = ChangeListeners(
            {
                "groups": self.groups.heard,
                "replicas": self.replicas.apply,
                "stray replicas": self._strays.heard,
                "moves between log directories": self.log_dir_moves.heard,
            },
            {
                "groups": self.groups.on_leadership,
                "transactions": self.transactions.on_leadership,
            },
        )
        self.replicas.on_leadership(self._listeners.tell_leadership)
        self._servers: list[asyncio.Server] = []
        self._connections: set[BrokerConnection] = set()
        self._housekeeping = Housekeeping(settings, self.log_directories, self.replicas, self.clock)

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, name: str
    ) -> bool:
        """Everybody may do everything until ACLs exist; every handler asks here."""
        return True

    async def start(self) -> None:
        """Join the cluster and serve. Raises OSError, KafkaError or ZooKeeper's errors."""
        self.log_directories.open(
            config=LogConfig.of({}, self.settings.config), flushes=bool(self._flushers)
        )
        for directory, flusher in self._flushers.items():
            if directory in self.log_directories.live:
                flusher.start()
        await self.groups.start()
        await self.transactions.start()
        self._isr_changes.start()
        await self.control_plane.start()
        assert self.metadata.cluster_id is not None, "joining gives the cluster id"
        self.log_directories.bind_cluster_id(self.metadata.cluster_id)
        self._strays.directories_bound()
        loop = asyncio.get_running_loop()
        for name, bound in self._sockets.items():
            server = await loop.create_server(
                lambda name=name: BrokerConnection(  # type: ignore[misc]
                    self,
                    name,
                    self.cold_reads,
                    self._connections.add,
                    self._connections.discard,
                ),
                sock=bound,
                backlog=LISTEN_BACKLOG,
            )
            self._servers.append(server)
        # Until the controller's first image is here, clients would be told of an empty cluster.
        await self.control_plane.wait_informed(FIRST_IMAGE_WAIT_MS_MAX)
        self._housekeeping.start()
        self._compaction.start()
        self._replica_watch.start()
        self._write_ready_file()
        _log.info("broker %d of %s is up", self.settings.broker_id, self.settings.cluster)

    async def stop(self) -> None:
        """Let others lead, leave the cluster, finish what was appended, close the logs cleanly."""
        await self._hand_over()
        Path(self.settings.ready_file).unlink(missing_ok=True)  # noqa: ASYNC240
        await self._replica_watch.stop()
        await self._housekeeping.stop()
        await self._compaction.stop()
        await self.log_dir_moves.stop()
        for server in self._servers:
            server.close()
        for connection in tuple(self._connections):
            connection.shut_down()
        self.cold_reads.stop()
        await self._isr_changes.stop()
        await self._fetchers.stop()
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
                _log.error("no clean stop: %s", error)
                self.log_directories.fail(directory, error)

    async def checkpoint(self, partitions: Collection[tuple[str, int]]) -> None:
        """Have the offsets of these partitions on the disk. Raises OSError."""
        homes = dict.fromkeys(self.log_directories.of(*each) for each in partitions)
        for directory in homes:
            if directory is not None:
                await self._checkpoint(directory)

    @property
    def ports(self) -> Mapping[str, int]:
        """The bound port of each listener."""
        return {name: bound.getsockname()[1] for name, bound in self._sockets.items()}

    # -- inside -----------------------------------------------------------------------------

    def _on_change(self, changes: Changes) -> None:
        self._listeners.tell(changes)

    async def _hand_over(self) -> None:
        """Others lead before this broker answers no more, where there are others."""
        is_wanted = self.settings.config_bool("controlled.shutdown.enable", True)
        if not is_wanted or not self._servers or len(self.metadata.brokers) < 2:
            return
        if not await self.control_plane.hand_over(HAND_OVER_WAIT_MS_MAX):
            _log.warning("not everything was handed over within %d ms", HAND_OVER_WAIT_MS_MAX)

    async def _checkpoint(self, directory: LogDirectory) -> None:
        await asyncio.to_thread(self._prepare_checkpoint(directory).run)

    def _prepare_checkpoint(self, directory: LogDirectory) -> Checkpoint:
        return directory.prepare_checkpoint(self._housekeeping.high_watermarks())

    async def _after_cut(self, replica: Partition, deletion: Deletion) -> None:
        """A replica's log was cut back: the checkpoints must not name what is gone."""
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
            # The log is not appended to before this is done, and on a full disk not at all.
            await asyncio.sleep(SPACE_PROBE_INTERVAL_MS / 1000)

    def _on_directory_failed(self, directory: LogDirectory, error: BaseException) -> None:
        if not self.log_directories.live:
            _log.critical("the last log directory failed, and the broker ends: %s", error)
            self._on_fatal(error)
            return
        _log.critical(
            "log directory %s failed: its replicas are offline until the next start: %s",
            directory.path,
            error,
        )
        # Not here and now: a write to one of its logs may be what found it out.
        self._replica_watch.look()

    def _on_fatal(self, error: BaseException) -> None:
        if not self.fatal.done():
            self.fatal.set_result(error)

    def _write_ready_file(self) -> None:
        path = Path(self.settings.ready_file)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "pid": os.getpid(),
            "state": "running",
            "broker_id": self.settings.broker_id,
            "listeners": self.ports,
        }
        partial = path.with_name(path.name + ".partial")
        partial.write_text(json.dumps(content))
        partial.replace(path)


def _new_session_id() -> int:
    return random.randint(1, (1 << 31) - 1)


def _bind(host: str, port: int) -> socket.socket:
    """A bound, listening-to-be socket. Raises OSError that names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY on what is accepted; with 0 it does not.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setblocking(False)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    return bound
