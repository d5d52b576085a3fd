"""Fetches from one broker for what it leads of the replicas that follow here.

One task asks for all of them in one Fetch, which the leader answers when there is something; it
appends what came, waits until that is durable, and asks again. What a follower asks at is
therefore what it has on the disk (`flush: fsync`), and that is how the leader learns it. Within a
fetch session (follower_session.py) a request names only what is asked for otherwise than before,
so that a round costs what moves, not what is followed.

A partition that fails is tried again after a time that doubles, and holds up no other one; it is
said when it begins to fail, and when it no longer does (replication/retries.py). So does one whose
disk takes long: it is waited for aside (disk_waits.py). A broker that cannot be reached is tried
again after replica.fetch.backoff.ms. When partitions are added, or come back from their disk,
while an answer is waited for, the connection is dropped: their leader may not commit before they
fetch. After an error that nobody foresaw the connection is dropped too, and everything is asked
for anew after a time that doubles.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from local_cluster.clock import Clock
from local_cluster.controller.model.metadata_cache import MetadataCache
from local_cluster.log.disk.disk_work import Deletion
from local_cluster.network import OpenLine
from local_cluster.replication.follower.disk_waits import DiskWaits, note_end, undurable
from local_cluster.replication.follower.fetch_turns import FetchTurns
from local_cluster.replication.follower.follower_decisions import (
    Append,
    Retry,
    StartAnew,
    Truncate,
    Wait,
)
from local_cluster.replication.follower.follower_request import (
    FETCH_VERSION,
    encode_follower_request,
)
from local_cluster.replication.follower.following import Position, position_of, take_answer
from local_cluster.replication.follower.leader_connection import LeaderLine
from local_cluster.replication.follower.retries import Retries
from local_cluster.replication.partition import Partition
from local_cluster.replication.throttle import ThrottledSide
from local_cluster.settings import BrokerSettings
from local_cluster.wire import fetch as codec
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError

BACKOFF_MS: Final = 100
"""Default of replica.fetch.backoff.ms; Kafka's is 1000."""
BACKOFF_MS_MAX: Final = 1_000
"""Of a partition that fails again and again."""
DEFECT_DELAY_MS_MIN: Final = 100
DEFECT_DELAY_MS_MAX: Final = 10_000
"""After an error that nobody foresaw, and that may well come again."""
SETTLE_MS_MAX: Final = 1_000
"""How long one leader waits for the disks of its partitions, before it goes on without them."""
GATHER_MS: Final = 2
"""How long partitions that are followed one after another are gathered before the next fetch."""

_log = logging.getLogger(__name__)

_ENDS_OF_EPOCH: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.inconsistent_topic_id,
    }
)
"""One of the two brokers has not heard of the new leader yet: said quietly."""


@dataclass(frozen=True)
class FetchContext:
    """What the fetches from all leaders share."""

    settings: BrokerSettings
    metadata: MetadataCache
    clock: Clock
    throttle: ThrottledSide
    disk_waits: DiskWaits
    after_cut: Callable[[Partition, Deletion], Awaitable[None]]
    open_line: OpenLine


class LeaderFetches:
    """One other broker, and what it leads of what is here."""

    def __init__(self, context: FetchContext, broker_id: int) -> None:
        self._context = context
        self._broker_id = broker_id
        self._backoff_ms = context.settings.config_int("replica.fetch.backoff.ms", BACKOFF_MS)
        self._line = LeaderLine(
            broker_id,
            context.settings.inter_broker_listener,
            context.metadata,
            context.open_line,
        )
        self._session = self._line.session
        self._turns = FetchTurns()
        self._retries: Retries[Partition] = Retries(self._backoff_ms, BACKOFF_MS_MAX)
        self._defects: Retries[None] = Retries(DEFECT_DELAY_MS_MIN, DEFECT_DELAY_MS_MAX)
        self._changed = asyncio.Event()
        self._failing = False
        self.task = asyncio.create_task(self._run(), name=f"fetch from broker {broker_id}")

    def add(self, partition: Partition) -> None:
        """Follow it, from now on or in another epoch."""
        self._turns.add(partition)
        self._others_are_due()

    def remove(self, partition: Partition) -> None:
        """Follow it no more."""
        self._turns.remove(partition)
        self._retries.forget(partition)
        self._session.drop(partition)

    def go_on(self, partition: Partition) -> None:
        """Its disk is done: fetch for it at once, if it is followed here."""
        if partition in self._turns:
            self._turns.look_at((partition,))
            self._others_are_due()

    def _others_are_due(self) -> None:
        self._changed.set()
        self._line.interrupt("other partitions are due")

    # -- the task ---------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                try:
                    await self._turn()
                except Exception:  # noqa: BLE001 - else nothing would be fetched here any more
                    failed = self._defects.failed(None, ErrorCode.unknown_server_error)
                    _log.exception(
                        "fetching from broker %d failed, and is tried again in %d ms",
                        self._broker_id,
                        failed.delay_ms,
                    )
                    # What was taken of an answer is unknown: everything is asked for anew.
                    self._line.drop("fetching failed")
                    await asyncio.sleep(failed.delay_ms / 1000)
        finally:
            self._line.drop("fetching ended")

    async def _turn(self) -> None:
        """Fetch once what is due, or wait until something is."""
        if self._changed.is_set():
            await asyncio.sleep(GATHER_MS / 1000)
            self._changed.clear()
        now = asyncio.get_running_loop().time()
        self._hold_back()
        self._turns.come_due(now)
        if any(map(self._may_ask, self._turns.followed)):
            await self._round()
        else:
            await self._pause(self._seconds_to_next(now))

    def _hold_back(self) -> None:
        """What is throttled and not in sync is not asked for while the quota is exceeded."""
        if not self._context.throttle.quota.is_exceeded(self._context.clock.monotonic_ms()):
            return
        for partition in self._turns.followed:
            if self._may_ask(partition) and self._is_held_back(partition):
                self._later(partition, self._backoff_ms)

    def _is_held_back(self, partition: Partition) -> bool:
        """Whether a replica is throttled, not in sync, and the quota is exceeded (KIP-73)."""
        context = self._context
        if not context.throttle.holds_back(partition.topic, partition.partition):
            return False
        state = context.metadata.partition(partition.topic, partition.partition)
        return state is None or context.settings.broker_id not in state.isr

    def _may_ask(self, partition: Partition) -> bool:
        return self._turns.may_ask(partition) and partition not in self._context.disk_waits

    async def _round(self) -> None:
        self._line.drop_closed()
        self._session.registered_as(self._context.metadata.broker_epoch)
        looked_at = self._turns.followed if self._session.is_full else self._turns.unsure
        due = [partition for partition in looked_at if self._may_ask(partition)]
        # Before any waiting for the disk: a damaged log is never flushed.
        damaged = [p for p in due if p.log.corruption is not None]
        if damaged:
            await self._settle(self._throw_away(damaged))
            return
        # A replica that led a moment ago may have more in its log than on its disk, and what it
        # asks at tells its leader how far it counts.
        if await self._settle(undurable(due)):
            return
        self._turns.looked()
        try:
            answers = await self._fetch({partition: position_of(partition) for partition in due})
        except (KafkaError, PeerError) as error:
            if not self._failing:
                _log.warning("broker %d cannot be fetched from: %s", self._broker_id, error)
            self._failing = True
            self._line.drop("fetching failed")
            await self._pause(self._backoff_ms / 1000)
            return
        if answers is None:
            return
        if self._failing:
            _log.info("broker %d is fetched from again", self._broker_id)
        self._failing = False
        answered = []
        cuts: dict[asyncio.Future[None], Partition] = {}
        try:
            for answer in answers:
                found = self._session.find(answer.topic_id, answer.partition)
                # The controller may have given it another leader meanwhile.
                if found is None or not self._is_current(*found):
                    if found is not None and found[0] not in self._turns:
                        self._session.drop(found[0])
                    continue
                partition, position = found
                answered.append(partition)
                cut = self._take(partition, position, answer)
                if cut is not None:
                    cuts[self._finish_cut(partition, cut)] = partition
        finally:
            # Whatever happened: nothing is appended before what a cut left to do is done.
            self._turns.look_at(answered)
            await self._settle(cuts | undurable(answered))
        if self._defects.succeeded(None):
            _log.info("broker %d is fetched from again", self._broker_id)

    def _finish_cut(self, partition: Partition, cut: Deletion) -> asyncio.Future[None]:
        return asyncio.ensure_future(self._context.after_cut(partition, cut))

    async def _settle(self, waits: Mapping[asyncio.Future[None], Partition]) -> bool:
        """Wait for disks, for a moment; what takes longer waits aside. Whether there was any."""
        if not waits:
            return False
        try:
            await asyncio.wait(waits, timeout=SETTLE_MS_MAX / 1000)
        finally:
            for wait, partition in waits.items():
                if wait.done():
                    # Asked again at once, a disk that failed would be waited for without end.
                    if (code := note_end(wait)) is not None and partition in self._turns:
                        self._failed(partition, code, logging.WARNING, f"has no disk: {code.name}")
                else:
                    # The leader would send for it again and again what nobody takes.
                    self._session.drop(partition)
                    self._context.disk_waits.add(partition, wait)
        return True

    async def _fetch(
        self, due: Mapping[Partition, Position]
    ) -> list[codec.PartitionFetched] | None:
        """The answers, None where new partitions came first. Raises KafkaError or PeerError."""
        await self._line.open()
        if self._changed.is_set():
            self._turns.look_at(due)
            return None
        # While the connection was opened the controller may have given some another leader: named
        # now they would be named for ever, and their refusal be told again and again.
        due = {partition: at for partition, at in due.items() if partition in self._turns}
        try:
            frame, position = await self._line.fetch(
                encode_follower_request(self._context.settings, self._session, due)
            )
        except KafkaError:
            if self._changed.is_set():
                return None
            raise
        error_code, session_id, answers = codec.decode_response(FETCH_VERSION, frame, position)
        if error_code:
            raise KafkaError(ErrorCode(error_code), "the fetch was refused")
        self._session.answered(session_id)
        return answers

    def _take(
        self, partition: Partition, asked: Position, answer: codec.PartitionFetched
    ) -> Deletion | None:
        """Act on one partition's answer; what it cut off."""
        try:
            done = take_answer(partition, asked, answer, now_ms=self._context.clock.now_ms())
        except KafkaError as error:
            self._failed(partition, error.code, logging.ERROR, f"cannot be followed: {error}")
            return None
        except Exception:  # noqa: BLE001 - whatever it is, the other partitions go on
            _log.exception("%s is not followed until the controller says more", partition.log)
            self._stall(partition)
            return None
        if isinstance(done.next, Append):
            size_bytes = codec.records_size_bytes(answer.records)
            self._context.throttle.record(partition.topic, partition.partition, size_bytes)
        match done.next:
            case Append() | Truncate() | StartAnew():
                attempts = self._retries.succeeded(partition)
                if attempts:
                    _log.info("%s is followed again, after %d failures", partition.log, attempts)
            case Wait():
                self._stall(partition)
            case Retry(code):
                level = logging.INFO if code in _ENDS_OF_EPOCH else logging.WARNING
                self._failed(partition, code, level, f"is not answered: {code.name}")
        return done.deletion

    def _failed(self, partition: Partition, code: ErrorCode, level: int, what: str) -> None:
        """This one is tried again later, and said to fail where that is news."""
        failed = self._retries.failed(partition, code)
        if failed.is_news:
            before = f" (failure {failed.attempts})" if failed.attempts > 1 else ""
            _log.log(level, "%s %s%s", partition.log, what, before)
        if partition.log.failure is not None:
            self._stall(partition)
        elif code in _ENDS_OF_EPOCH:
            # Soon over, and whoever writes to the new leader may be waiting.
            self._later(partition, self._backoff_ms)
        else:
            self._later(partition, failed.delay_ms)

    def _is_current(self, partition: Partition, asked: Position) -> bool:
        return (
            self._may_ask(partition)
            and not partition.is_leader
            and partition.leader_epoch == asked.leader_epoch
        )

    def _throw_away(self, damaged: list[Partition]) -> dict[asyncio.Future[None], Partition]:
        """Begin anew where a log is damaged: it is fetched again from the leader."""
        cuts = {}
        for partition in damaged:
            log = partition.log
            _log.warning("%s is damaged and fetched anew: %s", log, log.corruption)
            try:
                deletion = log.truncation.truncate_fully(
                    log.log_start_offset, self._context.clock.now_ms()
                )
            except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
                defect = None if isinstance(error, KafkaError) else error
                _log.error("%s stays as it is: %s", log, error, exc_info=defect)
                self._stall(partition)
                continue
            partition.cut_high_watermark()
            cuts[self._finish_cut(partition, deletion)] = partition
        return cuts

    def _later(self, partition: Partition, delay_ms: int) -> None:
        if partition in self._turns:
            self._turns.later(partition, asyncio.get_running_loop().time() + delay_ms / 1000)
            self._session.drop(partition)

    def _stall(self, partition: Partition) -> None:
        if partition in self._turns:
            self._turns.stall(partition)
            self._session.drop(partition)

    def _seconds_to_next(self, now: float) -> float | None:
        """Until a partition is due; None where none will be by itself."""
        at = self._turns.next_at()
        return None if at is None else max(at - now, 0.001)

    async def _pause(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
