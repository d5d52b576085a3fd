"""Fetches for the replicas that follow: one connection and one task per broker that leads them.

Each task asks for all its partitions in one Fetch, which the leader answers when there is
something; it appends what came, waits until that is durable, and asks again. What a follower asks
at is therefore what it has on the disk (`flush: fsync`), and that is how the leader learns it.
Within a fetch session (follower_session.py) a request names only what is asked for otherwise than
before, so that a round costs what moves, not what is followed.

A partition that fails is tried again after a time that doubles, and holds up no other one; it is
said when it begins to fail, and when it no longer does (replication/retries.py). So does one whose
disk takes long over a flush or over what a truncation left to do: it is waited for aside. A broker
that cannot be reached is tried again after replica.fetch.backoff.ms. When partitions are added, or
come back from their disk, while an answer is waited for, the connection is dropped: their leader
may not commit before they fetch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from local_cluster.clock import Clock
from local_cluster.controller.metadata_cache import MetadataCache
from local_cluster.log.tickets import Deletion
from local_cluster.network import Line, OpenLine, open_line
from local_cluster.replication.follower import Append, Retry, StartAnew, Truncate, Wait
from local_cluster.replication.follower_session import FollowerSession
from local_cluster.replication.following import Position, position_of, take_answer
from local_cluster.replication.partition import Partition
from local_cluster.replication.retries import Retries
from local_cluster.replication.throttle import ReplicationThrottle
from local_cluster.settings import BrokerSettings
from local_cluster.wire import fetch as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError

FETCH_VERSION: Final = 17
PARTITION_BYTES_MAX: Final = 1024 * 1024
"""Kafka's default of replica.fetch.max.bytes."""
RESPONSE_BYTES_MAX: Final = 10 * 1024 * 1024
"""Kafka's default of replica.fetch.response.max.bytes."""
WAIT_MS_MAX: Final = 500
"""Kafka's default of replica.fetch.wait.max.ms."""
BACKOFF_MS: Final = 100
"""Default of replica.fetch.backoff.ms; Kafka's is 1000."""
BACKOFF_MS_MAX: Final = 1_000
"""Of a partition that fails again and again."""
SETTLE_MS_MAX: Final = 1_000
"""How long one source waits for the disks of its partitions, before it goes on without them."""
ANSWER_TIMEOUT_MS: Final = 30_000
GATHER_MS: Final = 2
"""How long partitions that are followed one after another are gathered before the next fetch."""

_log = logging.getLogger(__name__)

_Entry = TypeVar("_Entry", codec.FetchPartition, codec.ForgottenPartition)

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


class ReplicaFetchers:
    """Everything that this broker follows."""

    def __init__(
        self,
        settings: BrokerSettings,
        metadata: MetadataCache,
        clock: Clock,
        *,
        throttle: ReplicationThrottle,
        after_cut: Callable[[Partition, Deletion], Awaitable[None]],
        open_line: OpenLine = open_line,
    ) -> None:
        """`after_cut` removes what was cut off and makes the offset checkpoints durable."""
        self.settings = settings
        self.metadata = metadata
        self.clock = clock
        self.throttle = throttle.follower
        self.after_cut = after_cut
        self.open_line = open_line
        self._sources: dict[int, _Source] = {}
        self.unsettled: dict[Partition, set[asyncio.Future[None]]] = {}
        """What waits for its disk, and may not be fetched for before."""
        self._stopped = False

    def follow(self, partition: Partition) -> None:
        """Fetch from the partition's leader, in its present epoch."""
        if self._stopped:
            return
        for leader_id, other in self._sources.items():
            if leader_id != partition.leader_id:
                other.remove(partition)
        source = self._sources.get(partition.leader_id)
        if source is None:
            source = self._sources[partition.leader_id] = _Source(self, partition.leader_id)
        source.add(partition)

    def leave(self, partition: Partition) -> None:
        """Fetch no more for a partition."""
        for source in self._sources.values():
            source.remove(partition)

    def wait_aside(self, partition: Partition, wait: asyncio.Future[None]) -> None:
        """Fetch no more for a partition, from whomever, until its disk is done."""
        self.unsettled.setdefault(partition, set()).add(wait)
        wait.add_done_callback(lambda _: self._settled(partition, wait))

    def _settled(self, partition: Partition, wait: asyncio.Future[None]) -> None:
        note_end(wait)
        waits = self.unsettled[partition]
        waits.discard(wait)
        if not waits:
            del self.unsettled[partition]
            for source in self._sources.values():
                source.go_on(partition)

    def is_held_back(self, partition: Partition) -> bool:
        """Whether a replica is throttled, not in sync, and the quota is exceeded (KIP-73)."""
        if not self.throttle.holds_back(partition.topic, partition.partition):
            return False
        state = self.metadata.partition(partition.topic, partition.partition)
        return state is None or self.settings.broker_id not in state.isr

    async def stop(self) -> None:
        """Fetch nothing any more."""
        self._stopped = True
        sources, self._sources = list(self._sources.values()), {}
        for source in sources:
            source.task.cancel()
        await asyncio.gather(*(source.task for source in sources), return_exceptions=True)
        waits = [wait for each in self.unsettled.values() for wait in each]
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


class _Source:
    """One other broker, and what it leads of what is here."""

    def __init__(self, owner: ReplicaFetchers, broker_id: int) -> None:
        self._owner = owner
        self._broker_id = broker_id
        self._config = owner.settings
        self._session = FollowerSession()
        self._followed: dict[Partition, None] = {}
        self._unsure: dict[Partition, None] = {}
        """What the session may not know as it is now; the others are at rest."""
        self._not_before: dict[Partition, float] = {}
        """Loop time of the next attempt, of those that failed or are held back."""
        self._stalled: set[Partition] = set()
        """Fenced, or the log is over: the controller says something new first."""
        self._retries: Retries[Partition] = Retries(self._backoff_ms(), BACKOFF_MS_MAX)
        self._changed = asyncio.Event()
        self._line: Line | None = None
        self._answer: asyncio.Future[tuple[memoryview, int]] | None = None
        """That the task waits for."""
        self._failing = False
        self.task = asyncio.create_task(self._run(), name=f"fetch from broker {broker_id}")

    def add(self, partition: Partition) -> None:
        self._followed[partition] = None
        self._unsure[partition] = None
        self._not_before.pop(partition, None)
        self._stalled.discard(partition)
        self._others_are_due()

    def remove(self, partition: Partition) -> None:
        self._followed.pop(partition, None)
        self._unsure.pop(partition, None)
        self._not_before.pop(partition, None)
        self._stalled.discard(partition)
        self._retries.forget(partition)
        self._session.drop(partition)

    def go_on(self, partition: Partition) -> None:
        """Its disk is done: fetch for it at once, if it is followed here."""
        if partition in self._followed:
            self._unsure[partition] = None
            self._others_are_due()

    def _others_are_due(self) -> None:
        self._changed.set()
        if self._answer is not None and not self._answer.done():
            self._drop_line("other partitions are due")

    # -- the task ---------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                if self._changed.is_set():
                    await asyncio.sleep(GATHER_MS / 1000)
                    self._changed.clear()
                now = loop.time()
                self._hold_back()
                for partition in [p for p, at in self._not_before.items() if at <= now]:
                    del self._not_before[partition]
                    self._unsure[partition] = None
                if any(map(self._is_askable, self._followed)):
                    await self._round()
                else:
                    await self._pause(self._next_attempt(now))
        except Exception:
            # The outermost shell of this source: without it its partitions would fall behind mute.
            _log.exception("fetching from broker %d ended", self._broker_id)
            raise
        finally:
            if self._line is not None:
                self._line.abort("fetching ended")

    def _hold_back(self) -> None:
        """What is throttled and not in sync is not asked for while the quota is exceeded."""
        if not self._owner.throttle.quota.is_exceeded(self._owner.clock.monotonic_ms()):
            return
        for partition in self._followed:
            if self._is_askable(partition) and self._owner.is_held_back(partition):
                self._later(partition, self._backoff_ms())

    def _is_askable(self, partition: Partition) -> bool:
        return (
            partition in self._followed
            and partition not in self._not_before
            and partition not in self._stalled
            and partition not in self._owner.unsettled
        )

    async def _round(self) -> None:
        if self._line is not None and self._line.is_closed:
            self._drop_line("closed by the leader")
        self._session.registered_as(self._owner.metadata.broker_epoch)
        looked_at = self._followed if self._session.is_full else self._unsure
        due = [partition for partition in looked_at if self._is_askable(partition)]
        # Before any waiting for the disk: a damaged log is never flushed.
        damaged = [p for p in due if p.log.corruption is not None]
        if damaged:
            await self._settle(self._throw_away(damaged))
            return
        # A replica that led a moment ago may have more in its log than on its disk, and what it
        # asks at tells its leader how far it counts.
        if await self._settle(_undurable(due)):
            return
        self._unsure.clear()
        try:
            answers = await self._fetch({partition: position_of(partition) for partition in due})
        except (KafkaError, PeerError) as error:
            if not self._failing:
                _log.warning("broker %d cannot be fetched from: %s", self._broker_id, error)
            self._failing = True
            self._drop_line("fetching failed")
            await self._pause(self._backoff_ms() / 1000)
            return
        if answers is None:
            return
        if self._failing:
            _log.info("broker %d is fetched from again", self._broker_id)
        self._failing = False
        answered = []
        cuts: dict[asyncio.Future[None], Partition] = {}
        for answer in answers:
            found = self._session.find(answer.topic_id, answer.partition)
            # The controller may have given it another leader meanwhile.
            if found is None or not self._is_current(*found):
                continue
            partition, position = found
            answered.append(partition)
            self._unsure[partition] = None
            cut = self._take(partition, position, answer)
            if cut is not None:
                cuts[self._finish_cut(partition, cut)] = partition
        await self._settle(cuts | _undurable(answered))

    def _finish_cut(self, partition: Partition, cut: Deletion) -> asyncio.Future[None]:
        return asyncio.ensure_future(self._owner.after_cut(partition, cut))

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
                    if (code := note_end(wait)) is not None and partition in self._followed:
                        self._failed(partition, code, logging.WARNING, f"has no disk: {code.name}")
                else:
                    # The leader would send for it again and again what nobody takes.
                    self._session.drop(partition)
                    self._owner.wait_aside(partition, wait)
        return True

    async def _fetch(
        self, due: Mapping[Partition, Position]
    ) -> list[codec.PartitionFetched] | None:
        """The answers, None where new partitions came first. Raises KafkaError or PeerError."""
        line = await self._open()
        if self._changed.is_set():
            self._unsure.update(dict.fromkeys(due))
            return None
        asked, forgotten = self._session.name(due)
        request = codec.FetchRequest(
            self._config.broker_id,
            self._config.config_int("replica.fetch.wait.max.ms", WAIT_MS_MAX),
            1,
            self._config.config_int("replica.fetch.response.max.bytes", RESPONSE_BYTES_MAX),
            0,
            self._session.id,
            self._session.epoch,
            self._asked(asked),
            _by_topic(
                codec.ForgottenPartition("", partition, topic_id)
                for topic_id, partition in forgotten
            ),
            "",
            self._session.broker_epoch,
        )
        body = codec.encode_request(FETCH_VERSION, request)
        self._answer = asyncio.ensure_future(line.send(ApiKey.FETCH, FETCH_VERSION, (body,)))
        too_late = asyncio.get_running_loop().call_later(
            ANSWER_TIMEOUT_MS / 1000, self._drop_line, "no answer to a fetch"
        )
        try:
            frame, position = await self._answer
        except KafkaError:
            if self._changed.is_set():
                return None
            raise
        finally:
            self._answer = None
            too_late.cancel()
        error_code, session_id, answers = codec.decode_response(FETCH_VERSION, frame, position)
        if error_code:
            raise KafkaError(ErrorCode(error_code), "the fetch was refused")
        self._session.answered(session_id)
        return answers

    def _asked(self, due: Mapping[Partition, Position]) -> list[codec.FetchPartition]:
        bytes_max = self._config.config_int("replica.fetch.max.bytes", PARTITION_BYTES_MAX)
        return _by_topic(
            codec.FetchPartition(
                "",
                partition.partition,
                position.leader_epoch,
                position.fetch_offset,
                position.last_fetched_epoch,
                position.log_start_offset,
                bytes_max,
                partition.topic_id,
            )
            for partition, position in due.items()
        )

    def _take(
        self, partition: Partition, asked: Position, answer: codec.PartitionFetched
    ) -> Deletion | None:
        """Act on one partition's answer; what it cut off."""
        try:
            done = take_answer(partition, asked, answer, now_ms=self._owner.clock.now_ms())
        except KafkaError as error:
            self._failed(partition, error.code, logging.ERROR, f"cannot be followed: {error}")
            return None
        except Exception:  # noqa: BLE001 - whatever it is, the other partitions go on
            _log.exception("%s is not followed until the controller says more", partition.log)
            self._stall(partition)
            return None
        if isinstance(done.next, Append):
            size_bytes = codec.records_size_bytes(answer.records)
            self._owner.throttle.record(partition.topic, partition.partition, size_bytes)
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
            self._later(partition, self._backoff_ms())
        else:
            self._later(partition, failed.delay_ms)

    def _is_current(self, partition: Partition, asked: Position) -> bool:
        return (
            self._is_askable(partition)
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
                deletion = log.truncate_fully(log.log_start_offset, self._owner.clock.now_ms())
            except KafkaError as error:
                _log.error("%s stays as it is: %s", log, error)
                self._stall(partition)
                continue
            partition.cut_high_watermark()
            cuts[self._finish_cut(partition, deletion)] = partition
        return cuts

    # -- the line ---------------------------------------------------------------------------

    async def _open(self) -> Line:
        if self._line is not None and not self._line.is_closed:
            return self._line
        broker = self._owner.metadata.brokers.get(self._broker_id)
        listener = self._config.inter_broker_listener
        if broker is None or listener not in broker.listeners:
            raise KafkaError(ErrorCode.broker_not_available, f"broker {self._broker_id} is away")
        self._line = await self._owner.open_line(*broker.listeners[listener])
        return self._line

    def _drop_line(self, reason: str) -> None:
        # An answer that does not come may have been the only one with that news.
        self._session.begin_anew()
        line, self._line = self._line, None
        if line is not None:
            line.abort(reason)

    def _later(self, partition: Partition, delay_ms: int) -> None:
        if partition in self._followed:
            self._not_before[partition] = asyncio.get_running_loop().time() + delay_ms / 1000
            self._session.drop(partition)

    def _stall(self, partition: Partition) -> None:
        if partition in self._followed:
            self._stalled.add(partition)
            self._session.drop(partition)

    def _backoff_ms(self) -> int:
        return self._config.config_int("replica.fetch.backoff.ms", BACKOFF_MS)

    def _next_attempt(self, now: float) -> float | None:
        """Seconds until a partition is due; None where none will be by itself."""
        return max(min(self._not_before.values()) - now, 0.001) if self._not_before else None

    async def _pause(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return


def note_end(wait: asyncio.Future[None]) -> ErrorCode | None:
    """What became of a wait for a disk; where it failed, why."""
    error = None if wait.cancelled() else wait.exception()
    if isinstance(error, KafkaError):
        return error.code
    if error is not None:
        _log.error("what a truncation left to do failed", exc_info=error)
        return ErrorCode.unknown_server_error
    return None


def _undurable(partitions: Iterable[Partition]) -> dict[asyncio.Future[None], Partition]:
    """Who has appended what is not on the disk yet."""
    return {wait: each for each in partitions if (wait := each.durable()) is not None}


def _by_topic(entries: Iterable[_Entry]) -> list[_Entry]:
    """Those of one topic adjacent, as requests have them."""
    return sorted(entries, key=_topic_number)


def _topic_number(entry: codec.FetchPartition | codec.ForgottenPartition) -> int:
    return 0 if entry.topic_id is None else entry.topic_id.int
