"""Fetches from one leader for the replicas that follow it here.

One task fetches for all of them in one request, which the leader answers when it has something. The
task appends what came, waits until that is durable, and fetches again. So a follower fetches at
what it has on the disk (`flush: fsync`), and the leader learns from that how far it counts. In the
fetch session (fetch_session.py) a request names only positions that have changed: a round costs
what moves, not what is followed.

Failures:

    one partition            retried after a delay that doubles; no other partition waits. Logged
                             when it starts to fail, and when it stops (backoff.py)
    a slow disk              its replica waits aside (slow_disks.py)
    an unreachable leader    retried after replica.fetch.backoff.ms
    an unexpected error      the connection is dropped and everything is fetched again, after a
                             delay that doubles

If replicas are added or come back from their disk while a response is in flight, the connection is
dropped: their leader may not be able to commit before they fetch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from local_cluster.backoff import FailureBackoff
from local_cluster.clock import Clock
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.log.disk.disk_work import Deletion
from local_cluster.network import ConnectToPeer
from local_cluster.replication.follower.apply_response import Position, apply_response, position_of
from local_cluster.replication.follower.fetch_session import FETCH_VERSION, encode_fetch
from local_cluster.replication.follower.fetch_states import FetchStates
from local_cluster.replication.follower.leader_endpoint import LeaderEndpoint
from local_cluster.replication.follower.response_rules import (
    UNKNOWN_LEADER,
    Action,
    Append,
    Retry,
    Stop,
    Truncate,
    TruncateFully,
)
from local_cluster.replication.follower.slow_disks import SlowDisks, disk_error, flush_waits
from local_cluster.replication.partition import Partition
from local_cluster.replication.throttle import ThrottledSide
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError
from local_cluster.wire.fetch import PartitionFetchResponse, decode_response, records_size_bytes

BACKOFF_MS: Final = 100
"""Default of replica.fetch.backoff.ms; Kafka's is 1000."""

log = logging.getLogger(__name__)


class FetchDelays(NamedTuple):
    """Delays of a fetcher, in milliseconds."""

    partition_backoff_ms_max: int = 1_000
    """Of a partition that fails again and again."""
    error_backoff_ms_min: int = 100
    error_backoff_ms_max: int = 10_000
    """Of the whole fetcher, after unexpected errors."""
    disk_wait_ms_max: int = 1_000
    """How long a round waits for the disks of its partitions, before it continues without them."""
    gather_ms: int = 2
    """How long partitions that are added one after another gather before the next fetch."""


@dataclass(frozen=True)
class FetchContext:
    """What all fetchers of a broker share."""

    settings: BrokerSettings
    metadata: MetadataCache
    clock: Clock
    throttle: ThrottledSide
    slow_disks: SlowDisks
    after_truncation: Callable[[Partition, Deletion], Awaitable[None]]
    connect: ConnectToPeer
    delays: FetchDelays


class ReplicaFetcher:
    """One leader, and the replicas that follow it here. The task starts at once."""

    def __init__(self, context: FetchContext, broker_id: int) -> None:
        self._context = context
        self._delays = context.delays
        self._broker_id = broker_id
        self._backoff_ms = context.settings.config_int("replica.fetch.backoff.ms", BACKOFF_MS)
        listener = context.settings.inter_broker_listener
        self._endpoint = LeaderEndpoint(broker_id, listener, context.metadata, context.connect)
        self._session = self._endpoint.session
        self._states: FetchStates[Partition] = FetchStates()
        self._partition_backoff = FailureBackoff[Partition](
            self._backoff_ms, self._delays.partition_backoff_ms_max
        )
        self._error_backoff = FailureBackoff[None](
            self._delays.error_backoff_ms_min, self._delays.error_backoff_ms_max
        )
        self._added = asyncio.Event()
        self._is_unreachable = False
        self.task = asyncio.create_task(self._run(), name=f"fetch from broker {broker_id}")

    def add(self, partition: Partition) -> None:
        """Follow a partition, or follow it in another epoch."""
        self._states.add(partition)
        self._fetch_soon()

    def remove(self, partition: Partition) -> None:
        """Stop following a partition."""
        self._states.remove(partition)
        self._partition_backoff.forget(partition)
        self._session.drop(partition)

    def resume(self, partition: Partition) -> None:
        """Fetch for a partition whose disk is done, if it is followed here."""
        if partition in self._states:
            self._states.mark_changed((partition,))
            self._fetch_soon()

    def _fetch_soon(self) -> None:
        self._added.set()
        self._endpoint.interrupt("other partitions are due")

    # -- the task ---------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                try:
                    await self._fetch_or_wait()
                except Exception:
                    # Otherwise no replica of this leader would be fetched any more.
                    failure = self._error_backoff.failed(None, ErrorCode.unknown_server_error)
                    log.exception(
                        "fetching from broker %d failed and is retried in %d ms",
                        self._broker_id,
                        failure.delay_ms,
                    )
                    # Part of a response may be applied: everything is fetched again.
                    self._endpoint.drop("fetching failed")
                    await asyncio.sleep(failure.delay_ms / 1000)
        finally:
            self._endpoint.drop("fetching ended")

    async def _fetch_or_wait(self) -> None:
        """Fetch once for what is ready, or wait until something is."""
        if self._added.is_set():
            await asyncio.sleep(self._delays.gather_ms / 1000)
            self._added.clear()
        now = asyncio.get_running_loop().time()
        self._delay_throttled()
        self._states.end_delays(now)
        if any(map(self._is_ready, self._states.followed)):
            await self._fetch_round()
        else:
            await self._pause(self._seconds_to_next(now))

    def _delay_throttled(self) -> None:
        """Delay throttled replicas outside the ISR while the quota is exceeded (KIP-73)."""
        if not self._context.throttle.quota.is_exceeded(self._context.clock.monotonic_ms()):
            return
        for partition in self._states.followed:
            if self._is_ready(partition) and self._must_wait(partition):
                self._delay(partition, self._backoff_ms)

    def _must_wait(self, partition: Partition) -> bool:
        context = self._context
        if not context.throttle.must_wait(partition.topic, partition.partition):
            return False
        state = context.metadata.partition(partition.topic, partition.partition)
        return state is None or context.settings.broker_id not in state.isr

    def _is_ready(self, partition: Partition) -> bool:
        return self._states.is_ready(partition) and partition not in self._context.slow_disks

    async def _fetch_round(self) -> None:
        self._endpoint.drop_closed()
        self._session.set_broker_epoch(self._context.metadata.broker_epoch)
        candidates = self._states.followed if self._session.is_full else self._states.changed
        due = [partition for partition in candidates if self._is_ready(partition)]
        # Before any wait for the disk: a damaged log is never flushed.
        damaged = [partition for partition in due if partition.log.corruption is not None]
        if damaged:
            await self._wait_for_disks(self._delete_damaged(damaged))
            return
        # A replica that led a moment ago may have more in its log than on its disk, and its fetch
        # offset tells the leader how far it counts.
        if await self._wait_for_disks(flush_waits(due)):
            return
        self._states.clear_changed()
        try:
            responses = await self._fetch({partition: position_of(partition) for partition in due})
        except (KafkaError, PeerError) as error:
            if not self._is_unreachable:
                log.warning("broker %d cannot be fetched from: %s", self._broker_id, error)
            self._is_unreachable = True
            self._endpoint.drop("fetching failed")
            await self._pause(self._backoff_ms / 1000)
            return
        if responses is None:
            return
        if self._is_unreachable:
            log.info("broker %d is fetched from again", self._broker_id)
        self._is_unreachable = False
        await self._apply(responses)
        if self._error_backoff.succeeded(None):
            log.info("broker %d is fetched from again", self._broker_id)

    async def _fetch(
        self, due: Mapping[Partition, Position]
    ) -> list[PartitionFetchResponse] | None:
        """Return the response, None if partitions were added first.

        Raises KafkaError or PeerError.
        """
        await self._endpoint.open()
        if self._added.is_set():
            self._states.mark_changed(due)
            return None
        # While the connection was opened the controller may have given some another leader. Named
        # now they would stay named, and each response would refuse them again.
        due = {partition: at for partition, at in due.items() if partition in self._states}
        try:
            frame, position = await self._endpoint.fetch(
                encode_fetch(self._context.settings, self._session, due)
            )
        except KafkaError:
            if self._added.is_set():
                return None
            raise
        error_code, session_id, responses = decode_response(FETCH_VERSION, frame, position)
        if error_code:
            raise KafkaError(ErrorCode(error_code), "the fetch was refused")
        self._session.record_response(session_id)
        return responses

    # -- responses --------------------------------------------------------------------------

    async def _apply(self, responses: Sequence[PartitionFetchResponse]) -> None:
        """Apply the response of each partition, and wait for the disks."""
        applied: list[Partition] = []
        truncations: dict[asyncio.Future[None], Partition] = {}
        try:
            for response in responses:
                found = self._session.find(response.topic_id, response.partition)
                # The controller may have given the partition another leader meanwhile.
                if found is None or not self._is_current(*found):
                    if found is not None and found[0] not in self._states:
                        self._session.drop(found[0])
                    continue
                partition, position = found
                applied.append(partition)
                deletion = self._apply_one(partition, position, response)
                if deletion is not None:
                    truncations[self._finish_truncation(partition, deletion)] = partition
        finally:
            # Even after an error nothing is appended before the end of the truncations.
            self._states.mark_changed(applied)
            await self._wait_for_disks(truncations | flush_waits(applied))

    def _is_current(self, partition: Partition, position: Position) -> bool:
        return (
            self._is_ready(partition)
            and not partition.is_leader
            and partition.leader_epoch == position.leader_epoch
        )

    def _apply_one(
        self, partition: Partition, position: Position, response: PartitionFetchResponse
    ) -> Deletion | None:
        """Apply the response of one partition. Return what it truncated."""
        now_ms = self._context.clock.now_ms()
        try:
            done = apply_response(partition, position, response, now_ms=now_ms)
        except KafkaError as error:
            self._fail(partition, error.code, logging.ERROR, f"cannot be followed: {error}")
            return None
        except Exception:
            # The other partitions continue.
            log.exception("%s is not followed before its next leader epoch", partition.log)
            self._mark_failed(partition)
            return None
        if isinstance(done.action, Append):
            size_bytes = records_size_bytes(response.records)
            self._context.throttle.record(partition.topic, partition.partition, size_bytes)
        self._record_action(partition, done.action)
        return done.deletion

    def _record_action(self, partition: Partition, action: Action) -> None:
        match action:
            case Append() | Truncate() | TruncateFully():
                attempts = self._partition_backoff.succeeded(partition)
                if attempts:
                    log.info("%s is followed again, after %d failures", partition.log, attempts)
            case Stop():
                self._mark_failed(partition)
            case Retry(code):
                level = logging.INFO if code in UNKNOWN_LEADER else logging.WARNING
                self._fail(partition, code, level, f"is refused by its leader: {code.name}")

    def _fail(self, partition: Partition, code: ErrorCode, level: int, what: str) -> None:
        """Retry a partition later, and log the failure if it is new."""
        failure = self._partition_backoff.failed(partition, code)
        if failure.is_new:
            attempts = f" (failure {failure.attempts})" if failure.attempts > 1 else ""
            log.log(level, "%s %s%s", partition.log, what, attempts)
        if partition.log.failure is not None:
            self._mark_failed(partition)
        elif code in UNKNOWN_LEADER:
            # This is soon over, and producers may be waiting for the new leader.
            self._delay(partition, self._backoff_ms)
        else:
            self._delay(partition, failure.delay_ms)

    # -- disks ------------------------------------------------------------------------------

    def _delete_damaged(
        self, damaged: Sequence[Partition]
    ) -> dict[asyncio.Future[None], Partition]:
        """Delete the records of damaged logs: they are fetched again from the leader."""
        truncations = {}
        for partition in damaged:
            damaged_log = partition.log
            log.warning("%s is damaged and fetched again: %s", damaged_log, damaged_log.corruption)
            try:
                deletion = damaged_log.truncation.truncate_fully(
                    damaged_log.log_start_offset, self._context.clock.now_ms()
                )
            except Exception as error:
                # The other partitions continue.
                unexpected = None if isinstance(error, KafkaError) else error
                log.error("%s stays damaged: %s", damaged_log, error, exc_info=unexpected)
                self._mark_failed(partition)
                continue
            partition.truncate_high_watermark()
            truncations[self._finish_truncation(partition, deletion)] = partition
        return truncations

    def _finish_truncation(self, partition: Partition, deletion: Deletion) -> asyncio.Future[None]:
        return asyncio.ensure_future(self._context.after_truncation(partition, deletion))

    async def _wait_for_disks(self, waits: Mapping[asyncio.Future[None], Partition]) -> bool:
        """Wait a moment for disks, and set slow ones aside. Return whether there were waits."""
        if not waits:
            return False
        try:
            await asyncio.wait(waits, timeout=self._delays.disk_wait_ms_max / 1000)
        finally:
            for wait, partition in waits.items():
                if wait.done():
                    # Without a delay a failed disk would be waited for again and again.
                    if (code := disk_error(wait)) is not None and partition in self._states:
                        what = f"cannot be flushed: {code.name}"
                        self._fail(partition, code, logging.WARNING, what)
                else:
                    # The leader would send its records again and again, in vain.
                    self._session.drop(partition)
                    self._context.slow_disks.add(partition, wait)
        return True

    # -- states -----------------------------------------------------------------------------

    def _delay(self, partition: Partition, delay_ms: int) -> None:
        if partition in self._states:
            self._states.delay(partition, asyncio.get_running_loop().time() + delay_ms / 1000)
            self._session.drop(partition)

    def _mark_failed(self, partition: Partition) -> None:
        if partition in self._states:
            self._states.mark_failed(partition)
            self._session.drop(partition)

    def _seconds_to_next(self, now: float) -> float | None:
        """Return the time until the first delay ends; None if there is none."""
        until = self._states.next_end_of_delay()
        return None if until is None else max(until - now, 0.001)

    async def _pause(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._added.wait()
        except TimeoutError:
            return
