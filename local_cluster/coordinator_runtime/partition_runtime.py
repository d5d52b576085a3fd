"""One led partition of a coordinator's topic: loads a shard, steps it, parks its answers.

    LOADING --loaded--> ACTIVE --append or commit failed--> LOADING
       |                   |
       +--cannot be read-> FAILED        any --leadership lost, broker stops--> CLOSED

Guarantees: an answer leaves, and a follow-up begins, only when every record written up to its
step is committed; while the partition loads, requests are refused with
COORDINATOR_LOAD_IN_PROGRESS; where an append or a commit fails the shard is thrown away, everyone
who waits is told so, and the state is read back from the log. Where fewer replicas are in sync than
min.insync.replicas nothing is appended, which would wait for ever and everybody else behind it:
requests that write are refused before they change anything, as are those that would wait for a
commit, and timers are put off. All steps run on the event loop, one
at a time; none awaits. A runtime belongs to one term of leadership: when leadership comes back, a
new one loads what the log then holds.

Not here: what the requests mean (the shard), which key lives here (coordinated_topic.py), how
records reach the log (commit_queue.py).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, Final, Generic

from tenacity import AsyncRetrying, stop_after_attempt, wait_exponential

from local_cluster.clock import Clock
from local_cluster.coordinator_runtime.commit_queue import CommitQueue
from local_cluster.coordinator_runtime.loading import S, load_shard
from local_cluster.coordinator_runtime.outcome import Now, Outcome
from local_cluster.coordinator_runtime.ports import LeadingReplica
from local_cluster.records.control import EndMarker
from local_cluster.wire.errors import ErrorCode, KafkaError

LOAD_ATTEMPTS_MAX: Final = 10
LOAD_WAIT_SECONDS_MAX: Final = 30.0
RELOAD_WAIT_SECONDS: Final = 0.1
"""Before the state is read back after a failed append; twice as long after each that follows with
nothing committed in between, so that a full or sick disk is not hammered."""
RELOAD_WAIT_SECONDS_MAX: Final = 5.0
WAITING_REQUESTS_MAX: Final = 100_000
"""Requests per partition that may wait for their answer at one time."""
WRITABLE_POLL_SECONDS: Final = 1.0
"""Between two looks whether there are enough replicas in sync again."""
GRACE_MS: Final = 10_000
"""No timer fires this soon after that: whose requests were refused has to be heard of first."""
INSISTED_STEPS_MAX: Final = 1_000
"""Steps per partition that may wait for being committed; the oldest are given up."""

Ask = Callable[[S, int, Now], Outcome]
"""One request: (shard, ticket, now) -> what it wants done."""
FollowUp = Callable[["PartitionRuntime[S]", Any], Coroutine[Any, Any, None]]
"""Does one of an outcome's follow-ups; cancelled when the state it came from is discarded."""

_log = logging.getLogger(__name__)


class RuntimeState(Enum):
    """Where a partition is between gaining and losing leadership."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


_REFUSALS: Final = {
    RuntimeState.LOADING: ErrorCode.coordinator_load_in_progress,
    RuntimeState.FAILED: ErrorCode.coordinator_not_available,
    RuntimeState.CLOSED: ErrorCode.not_coordinator,
}


def reload_wait_seconds(failures_in_a_row: int) -> float:
    """How long to wait before the state is read back, after so many failures before this one."""
    doublings = min(failures_in_a_row, 16)  # the longest wait is reached long before
    return float(min(RELOAD_WAIT_SECONDS * 2**doublings, RELOAD_WAIT_SECONDS_MAX))


class PartitionRuntime(Generic[S]):
    """Runs one shard on one led partition, from `start` to `close`."""

    def __init__(
        self,
        name: str,
        replica: LeadingReplica,
        new_shard: Callable[[], S],
        clock: Clock,
        follow_up: FollowUp[S] | None = None,
    ) -> None:
        self.name = name
        self.state = RuntimeState.LOADING
        self._replica = replica
        self._new_shard = new_shard
        self._clock = clock
        self._follow_up = follow_up
        self._shard = new_shard()
        self._commits = CommitQueue(replica, clock, self._finish, self._discard)
        self._tickets = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._insisted: dict[int, Callable[[S, Now], Outcome]] = {}
        """By ticket: what has to be done to this state, or to the one that is loaded next."""
        self._overdue: dict[int, None] = {}
        """Those of them that this state has not had. No other step may overtake them: run after a
        commit for a topic that was created again, one would take away what is not its own."""
        self._loading: asyncio.Task[None] | None = None
        self._following: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._writable_poll: asyncio.TimerHandle | None = None
        """While something is put off, or was refused, until it can be committed."""
        self._failures_in_a_row = 0

    def start(self) -> None:
        """Begin to load."""
        self._loading = asyncio.create_task(self._load(0.0), name=f"load {self.name}")

    def close(self) -> None:
        """Leadership is lost or the broker stops: whoever waits has to ask somebody else."""
        self.state = RuntimeState.CLOSED
        if self._loading is not None:
            self._loading.cancel()
        self._forget(ErrorCode.not_coordinator)

    async def wait_closed(self) -> None:
        """Until every task is gone; call `close` first."""
        tasks = [*self._following] + ([] if self._loading is None else [self._loading])
        if tasks:
            await asyncio.wait(tasks)

    @property
    def shard(self) -> S:
        """The state, for reading. Raises KafkaError while it is not there."""
        self._require_active()
        return self._shard

    @property
    def leader_epoch(self) -> int:
        """The epoch under which this broker leads, which is the coordinator's epoch."""
        return self._replica.leader_epoch

    @property
    def is_writable(self) -> bool:
        """Whether what is appended now can be committed."""
        return not self._replica.is_under_min_isr

    async def wait_writable(self) -> None:
        """Until what is appended now can be committed, or this broker leads no more."""
        while not self.is_writable:  # noqa: ASYNC110 - the replica tells nobody
            await asyncio.sleep(WRITABLE_POLL_SECONDS)

    def ask(self, ask: Ask[S], *, may_write: bool = True) -> asyncio.Future[Any]:
        """Run one request on the shard; the future gives its answer once that may be told.

        Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR or
        COORDINATOR_NOT_AVAILABLE. The future may fail with the last two, or with
        UNKNOWN_SERVER_ERROR where the records are too large for the log.
        """
        self._require_active()
        if not self.is_writable and (may_write or self._commits.is_waiting):
            # Before the step: undoing it would take a load, and all that is not in the log.
            self._put_off()
            raise KafkaError(
                ErrorCode.coordinator_not_available, f"{self.name} has too few replicas in sync"
            )
        if len(self._waiting) >= WAITING_REQUESTS_MAX:
            raise KafkaError(ErrorCode.coordinator_not_available, "too many requests wait")
        self._perform_overdue()
        self._require_active()
        ticket = next(self._tickets)
        outcome = self._run(lambda shard, now: ask(shard, ticket, now))
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = future
        self._perform(outcome)
        return future

    def answer_now(self, ask: Ask[S]) -> asyncio.Future[Any]:
        """Run a request that writes nothing and whose answer need not wait for any commit.

        So it is not held up by one that takes long. Raises KafkaError: as `ask`.
        """
        self._require_active()
        ticket = next(self._tickets)
        outcome = self._run(lambda shard, now: ask(shard, ticket, now))
        ((answered, answer),) = outcome.answers
        assert answered == ticket and not outcome.records and not outcome.follow_ups
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_result(answer)
        self._arm()
        return future

    def tell(self, step: Callable[[S, Now], Outcome]) -> None:
        """Run a step that nobody waits for; nothing happens while the state is not there, or what
        is appended cannot be committed."""
        self._perform_overdue()
        if self.state is RuntimeState.ACTIVE and self.is_writable:
            self._perform(self._run(step))

    def insist(self, step: Callable[[S, Now], Outcome]) -> None:
        """Run a step that nobody waits for and that must not be lost while this broker leads.

        Where the state is being loaded it is run before the first request, and again after each
        load until its records are committed; so it must bear being run on what it did before. On
        one state it is run once. Where its records could not be committed now it is run when they
        can, before anything else that is written.
        """
        if self.state not in (RuntimeState.ACTIVE, RuntimeState.LOADING):
            return
        if len(self._insisted) >= INSISTED_STEPS_MAX:
            _log.error("%s has too much to be done yet, and gives up the oldest of it", self.name)
            oldest = next(iter(self._insisted))
            del self._insisted[oldest]
            self._overdue.pop(oldest, None)
        ticket = next(self._tickets)
        self._insisted[ticket] = step
        self._overdue[ticket] = None
        self._perform_overdue()

    def end_transaction(
        self, producer_id: int, producer_epoch: int, marker: EndMarker
    ) -> asyncio.Future[None]:
        """Write the marker of a transaction, and tell the shard.

        The future is done when the marker is committed. Raises KafkaError as `ask` does,
        NOT_ENOUGH_REPLICAS, and what the log has against the marker; then nothing has changed.
        """
        self._require_active()
        self._replica.require_in_sync_replicas()
        self._perform_overdue()
        self._commits.write_gathered()
        self._require_active()
        committed = self._commits.write_marker(producer_id, producer_epoch, marker)
        self._shard.end_transaction(producer_id, is_commit=marker.is_commit)
        return committed

    # -- inside -----------------------------------------------------------------------------

    def _now(self) -> Now:
        return Now(self._clock.now_ms(), self._clock.monotonic_ms())

    def _require_active(self) -> None:
        refusal = _REFUSALS.get(self.state)
        if refusal is not None:
            raise KafkaError(refusal, f"{self.name} is {self.state.value}")

    def _run(self, step: Callable[[S, Now], Outcome]) -> Outcome:
        """One step of the shard. Where it breaks, what it had done so far is undone."""
        try:
            return step(self._shard, self._now())
        except Exception as error:
            self._discard(f"a step failed: {error!r}", ErrorCode.not_coordinator)
            raise

    def _perform(self, outcome: Outcome) -> None:
        self._commits.put(outcome)
        self._arm()

    def _perform_overdue(self) -> None:
        """Do what was insisted on and this state has not had; put it off if it cannot be committed.

        The state may be discarded by that.
        """
        while self._overdue and self.state is RuntimeState.ACTIVE:
            if not self.is_writable:
                self._put_off()
                return
            self._perform_insisted(next(iter(self._overdue)))

    def _perform_insisted(self, ticket: int) -> None:
        del self._overdue[ticket]
        try:
            outcome = self._run(self._insisted[ticket])
        except Exception:
            del self._insisted[ticket]  # it would break the next state as well
            raise
        self._perform(outcome.answer(ticket, None))

    def _finish(self, outcome: Outcome) -> None:
        """Everything up to this outcome is committed."""
        if outcome.records:
            self._failures_in_a_row = 0
        for ticket, answer in outcome.answers:
            self._insisted.pop(ticket, None)
            # A ticket is gone when its request was failed before; its peer may be gone as well.
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_result(answer)
        for item in outcome.follow_ups:
            assert self._follow_up is not None, "a shard with follow-ups needs somebody to do them"
            task = asyncio.create_task(self._follow_up(self, item), name=f"{self.name}: {item}")
            self._following.add(task)
            task.add_done_callback(self._following.discard)

    def _discard(self, reason: str, code: ErrorCode) -> None:
        """Forget the state, which may be ahead of the log, and read it back."""
        if self.state is not RuntimeState.ACTIVE:
            return
        wait_seconds = reload_wait_seconds(self._failures_in_a_row)
        # A request that is too large for the log says nothing about the disk.
        self._failures_in_a_row += code is ErrorCode.not_coordinator
        _log.warning("%s is loaded again in %.1f s: %s", self.name, wait_seconds, reason)
        self.state = RuntimeState.LOADING
        self._forget(code)
        self._loading = asyncio.create_task(self._load(wait_seconds), name=f"reload {self.name}")

    def _forget(self, code: ErrorCode) -> None:
        """Nobody may act on this state any more."""
        self._commits.restart(0)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writable_poll is not None:
            self._writable_poll.cancel()
            self._writable_poll = None
        for task in self._following:
            if task is not asyncio.current_task():
                task.cancel()
        for ticket in tuple(self._waiting):
            self._refuse(ticket, code)

    async def _load(self, wait_seconds: float) -> None:
        await asyncio.sleep(wait_seconds)
        began_ms = self._clock.monotonic_ms()
        try:
            async for attempt in AsyncRetrying(
                wait=wait_exponential(multiplier=0.2, max=LOAD_WAIT_SECONDS_MAX),
                stop=stop_after_attempt(LOAD_ATTEMPTS_MAX),
                reraise=True,
            ):
                with attempt:
                    shard, end_offset = await load_shard(self._replica, self._new_shard)
            outcome = shard.finish_load(self._now())
        except Exception:  # noqa: BLE001 - whatever it is, this ends with an answer to who waits
            # Serving without the state would reset consumers and forget decisions: refuse instead.
            _log.exception("%s cannot be loaded", self.name)
            self.state = RuntimeState.FAILED
            return
        self._shard = shard
        self._commits.restart(end_offset)
        self.state = RuntimeState.ACTIVE
        took_ms = self._clock.monotonic_ms() - began_ms
        level = logging.INFO if end_offset else logging.DEBUG
        _log.log(level, "%s loaded up to offset %d in %d ms", self.name, end_offset, took_ms)
        self._overdue = dict.fromkeys(self._insisted)
        self._perform(outcome)
        self._perform_overdue()

    def _put_off(self) -> None:
        """There are too few replicas in sync: look again in a while."""
        if self._writable_poll is None:
            loop = asyncio.get_running_loop()
            self._writable_poll = loop.call_later(WRITABLE_POLL_SECONDS, self._poll_writable)

    def _poll_writable(self) -> None:
        self._writable_poll = None
        if not self.is_writable:
            self._put_off()
            # What was appended before stays, and is committed once it can be; who asked for it
            # has to ask again, as when Kafka's offsets.commit.timeout.ms is over.
            for ticket in self._commits.waiting_tickets():
                self._refuse(ticket, ErrorCode.coordinator_not_available)
            return
        self._shard.put_off_timers(self._clock.monotonic_ms() + GRACE_MS)
        self._perform_overdue()
        self._arm()

    def _refuse(self, ticket: int, code: ErrorCode) -> None:
        future = self._waiting.pop(ticket, None)
        if future is not None and not future.done():
            future.set_exception(KafkaError(code))
            future.exception()  # a peer that is gone must not leave a warning behind

    def _arm(self) -> None:
        """Wake up for the earliest timer. A deadline that moved back is found out on waking."""
        if self.state is not RuntimeState.ACTIVE or self._writable_poll is not None:
            return
        deadline_ms = self._shard.next_deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_ms = max(deadline_ms - self._clock.monotonic_ms(), 0)
        self._timer_ms = deadline_ms
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if not self.is_writable:
            self._put_off()
        elif self._writable_poll is None:
            self.tell(lambda shard, now: shard.expire_timers(now))
