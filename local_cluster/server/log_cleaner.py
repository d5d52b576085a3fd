"""Compacts logs: chooses those that are due, has a process rewrite them, swaps the segments.

Every log.cleaner.backoff.ms the due logs are compacted, the dirtiest first, one at a time. Groups
of segments are swapped in as the process reports them. When all of them are on the disk, with
their directory, the cleaned offset of the log advances.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, Protocol

from local_cluster.clock import Clock
from local_cluster.controller.member.current_configs import CurrentConfigs
from local_cluster.controller.model.metadata_cache import Changes
from local_cluster.log.compaction.cleanable import is_roll_due
from local_cluster.log.compaction.compaction_job import CleanedGroup
from local_cluster.log.compaction.compaction_round import CompactionRound, find_due, plan_round
from local_cluster.log.compaction.key_offset_map import LOAD_FACTOR
from local_cluster.log.directory.log_store import LogStore
from local_cluster.log.disk.disk_health import SPACE_ERRORS
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.periodic import Periodic
from local_cluster.server.compactor_process import (
    CompactorDiedError,
    CompactorProcess,
    JobDone,
    JobFailed,
)
from local_cluster.wire.errors import KafkaError

BACKOFF_MS: Final = 15_000
"""Default of log.cleaner.backoff.ms."""
DEDUPE_BUFFER_BYTES: Final = 128 * 1024 * 1024
"""Default of log.cleaner.dedupe.buffer.size."""
UNCLEANABLE_RETRY_MS: Final = 600_000
"""How long a log is not chosen again after its compaction failed."""

log = logging.getLogger(__name__)


class CleanableReplica(Protocol):
    """A replica; `Partition` is one."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def log(self) -> PartitionLog: ...
    @property
    def high_watermark(self) -> int: ...


class LogCleaner:
    """The compaction of one broker's logs. Call `start` and `stop` on the loop."""

    def __init__(
        self,
        configs: CurrentConfigs,
        replicas: Iterable[CleanableReplica],
        directories: LogStore,
        clock: Clock,
    ) -> None:
        self._configs = configs
        self._is_enabled = configs.flag("log.cleaner.enable", True)
        self._process = CompactorProcess(self._rate())
        self._replicas = replicas
        self._directories = directories
        self._clock = clock
        self._files = OsFiles()
        self._rounds = Periodic(
            "log cleaner",
            self._compact_due,
            interval_ms=self._interval_ms(),
        )
        self._uncleanable_until_ms: dict[tuple[str, int], int] = {}

    def start(self) -> None:
        if self._is_enabled:
            self._rounds.start()

    def apply(self, changes: Changes) -> None:
        """Take over changed configs. The sizes of the key map are read when a round is planned."""
        if changes.broker_configs:
            self._process.set_rate(self._rate())
            self._rounds.set_interval(self._interval_ms())

    def _rate(self) -> float:
        """Return the limit of the process in bytes per second; 0: no limit."""
        return float(self._configs.get("log.cleaner.io.max.bytes.per.second", 0))

    def _interval_ms(self) -> int:
        return self._configs.number("log.cleaner.backoff.ms", BACKOFF_MS)

    async def stop(self) -> None:
        """Kill the process. The next start deletes what it wrote in vain."""
        await self._rounds.stop()
        await self._process.end()

    def uncleanable_count(self, now_ms: int) -> int:
        """Return how many logs are skipped for a while after an error."""
        return sum(until_ms > now_ms for until_ms in self._uncleanable_until_ms.values())

    async def _compact_due(self) -> None:
        for replica in await self._choose():
            await self._compact_or_skip(replica)

    async def _compact_or_skip(self, replica: CleanableReplica) -> None:
        """Compact one log. After an error skip it for a while, and no other log."""
        try:
            await self._compact(replica)
        except (KafkaError, OSError) as error:
            self._mark_uncleanable(replica, error)
        except Exception:
            # The other logs are compacted.
            log.exception("%s cannot be compacted", replica.log)
            self._mark_uncleanable(replica)
            # Its next event would be taken for one of another job.
            await self._process.end()

    def _mark_uncleanable(self, replica: CleanableReplica, error: Exception | None = None) -> None:
        """Do not choose a log for a while, as Kafka's uncleanable partitions."""
        if error is not None:
            log.warning("%s is not compacted for a while: %s", replica.log, error)
        key = (replica.topic, replica.partition)
        self._uncleanable_until_ms[key] = self._clock.now_ms() + UNCLEANABLE_RETRY_MS

    async def _choose(self) -> list[CleanableReplica]:
        """Return the replicas whose logs are due, the dirtiest first."""
        due: list[tuple[float, CleanableReplica]] = []
        for replica in tuple(self._replicas):
            try:
                dirty_ratio = self._dirty_ratio(replica)
            except (KafkaError, OSError) as error:
                # A closed segment cannot be read, or the active one cannot be rolled.
                self._mark_uncleanable(replica, error)
                continue
            if dirty_ratio is not None:
                due.append((dirty_ratio, replica))
            await asyncio.sleep(0)
        due.sort(key=lambda item: item[0], reverse=True)
        return [replica for _, replica in due]

    def _dirty_ratio(self, replica: CleanableReplica) -> float | None:
        """Return the dirty ratio of a log, None if it is not due. Raises KafkaError, OSError."""
        replica_log = replica.log
        if (
            not replica_log.config.is_compacted
            or replica_log.failure is not None
            or replica_log.corruption is not None
        ):
            return None
        key = (replica.topic, replica.partition)
        if self._directories.future_home(*key) is not None:
            return None  # its copy would have to be compacted too
        now_ms = self._clock.now_ms()
        if self._uncleanable_until_ms.get(key, 0) > now_ms:
            return None
        if is_roll_due(replica_log.segments.all[-1], replica_log.config, now_ms):
            replica_log.writer.roll(now_ms)
        cleanable = find_due(
            replica_log,
            cleaned_offset=self._cleaned_offset(replica),
            last_stable_offset=replica_log.reader.last_stable_offset(replica.high_watermark),
            now_ms=now_ms,
        )
        return None if cleanable is None else cleanable.dirty_ratio

    def _cleaned_offset(self, replica: CleanableReplica) -> int:
        """Return the end of the clean part. Between a truncation and its checkpoint it lies
        beyond the log end."""
        return self._directories.cleaned_offset(replica.topic, replica.partition)

    async def _compact(self, replica: CleanableReplica) -> None:
        """Run rounds until a log is clean: several if its keys do not fit into the buffer."""
        replica_log = replica.log
        while True:
            planned = plan_round(
                replica_log,
                cleaned_offset=self._cleaned_offset(replica),
                last_stable_offset=replica_log.reader.last_stable_offset(replica.high_watermark),
                now_ms=self._clock.now_ms(),
                key_bytes_max=self._configs.number(
                    "log.cleaner.dedupe.buffer.size", DEDUPE_BUFFER_BYTES
                ),
                load_factor=float(
                    self._configs.get("log.cleaner.io.buffer.load.factor", LOAD_FACTOR)
                ),
            )
            if planned is None:
                return
            try:
                end_offset = await self._run(planned)
            except (CompactorDiedError, OSError) as error:
                log.warning(
                    "the compactor died over %s and is started again: %r", replica_log, error
                )
                await self._process.end()
                return
            if end_offset is None:
                self._mark_uncleanable(replica)
                return
            if planned.is_void or not await self._advance(replica, planned, end_offset):
                return
            if end_offset >= planned.job.end_offset:
                return

    async def _advance(
        self, replica: CleanableReplica, planned: CompactionRound, end_offset: int
    ) -> bool:
        """Sync the directory, advance the cleaned offset. Return False if the log was deleted."""
        key = (replica.topic, replica.partition)
        home = self._directories.of(*key)
        try:
            await asyncio.to_thread(self._files.open_for_sync(planned.log.directory).sync)
        except FileNotFoundError:
            return False
        except OSError as error:
            if home is not None:
                self._directories.fail(home, error)
            return False
        if planned.truncations == planned.log.state.truncations and planned.log.failure is None:
            self._directories.set_cleaned_offset(*key, end_offset)
        return True

    async def _run(self, planned: CompactionRound) -> int | None:
        """Run one round. Return its end offset, None if the log cannot be compacted.

        Raises CompactorDiedError or OSError.
        """
        await self._process.send(planned.job)
        while True:
            match await self._process.next_event():
                case CleanedGroup() as cleaned:
                    await self._swap(planned, cleaned)
                    if planned.is_void:
                        # All that the process still writes is in vain.
                        await self._process.end()
                        return planned.job.start_offset
                case JobDone(end_offset, totals):
                    log.info(
                        "%s is compacted up to %d: %d of %d records, %d of %d batches are left",
                        planned.log,
                        end_offset,
                        totals["records_kept"],
                        totals["records_read"],
                        totals["batches_kept"],
                        totals["batches_read"],
                    )
                    return end_offset
                case JobFailed(reason, errno):
                    return self._handle_failure(planned, reason, errno)

    def _handle_failure(
        self, planned: CompactionRound, reason: str, errno: int | None
    ) -> int | None:
        """Return where the round started if its log is fine, None if it is uncleanable."""
        if planned.log.failure is not None or planned.log_changed:
            # Files were deleted under the process. Nothing is wrong with the log.
            planned.is_void = True
            return planned.job.start_offset
        if errno in SPACE_ERRORS:
            home = self._directories.of(planned.log.topic, planned.log.partition)
            if home is not None:
                home.disk.note(OSError(errno, reason))
            planned.is_void = True
            return planned.job.start_offset
        log.error("%s cannot be compacted: %s", planned.log, reason)
        return None

    async def _swap(self, planned: CompactionRound, cleaned: CleanedGroup) -> None:
        try:
            deletion = planned.take_over(cleaned)
        except KafkaError as error:
            planned.is_void = True
            log.error("%s: the compacted segments are not used: %s", planned.log, error)
            return
        if deletion is None:
            log.info("%s changed while it was compacted; it is compacted later", planned.log)
            return
        try:
            await asyncio.to_thread(deletion.run)
        except OSError as error:
            log.warning("segments of %s stay until the next start: %s", planned.log, error)
