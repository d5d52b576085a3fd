"""One led partition of a coordinator's topic: loads a shard, runs its steps, parks responses.

    LOADING --loaded--> ACTIVE --append or commit failed--> LOADING
       |                   |
       +--load failed--> FAILED        any --leadership lost, broker stops--> CLOSED

Guarantees:

- a response leaves, and a follow-up starts, only when every record written up to its step is
  committed
- while the partition loads, requests are refused with COORDINATOR_LOAD_IN_PROGRESS
- if an append or a commit fails, the shard is dropped, all waiting requests fail, and the state is
  loaded again from the log
- while the ISR is smaller than min.insync.replicas nothing is appended, because the append and
  everything behind it would wait without limit. Requests that may write, or would wait for a
  commit, are refused before they change anything; timers are deferred

All steps run on the event loop, one at a time, and none awaits. A runtime serves one term of
leadership: when leadership returns, a new runtime loads what the log then holds.

Not here: what requests mean (the shard), which partition a key belongs to (coordinated_topic.py),
how records reach the log (commit_queue.py).
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
from local_cluster.coordinator_runtime.pending_work import MandatorySteps, ParkedRequests, Step
from local_cluster.coordinator_runtime.ports import LeadingReplica
from local_cluster.records.control import EndMarker
from local_cluster.wire.errors import ErrorCode, KafkaError

LOAD_ATTEMPTS_MAX: Final = 10
LOAD_WAIT_SECONDS_MAX: Final = 30.0
RELOAD_WAIT_SECONDS: Final = 0.1
"""The backoff before a reload. It doubles with each failure until something is committed, so that
a full or failing disk is not overloaded."""
RELOAD_WAIT_SECONDS_MAX: Final = 5.0
PARKED_REQUESTS_MAX: Final = 100_000
"""Per partition."""
WRITABLE_POLL_SECONDS: Final = 1.0
"""Between two checks whether enough replicas are in sync again."""
GRACE_MS: Final = 10_000
"""No timer fires this soon after that, so that members whose requests were refused can send their
next heartbeat first."""
MANDATORY_STEPS_MAX: Final = 1_000
"""Per partition; beyond it the oldest step is given up."""

RequestStep = Callable[[S, int, Now], Outcome]
"""The step of one request: (shard, ticket, now) -> outcome."""
FollowUp = Callable[["PartitionRuntime[S]", Any], Coroutine[Any, Any, None]]
"""Does one of an outcome's follow-ups; cancelled when its state is dropped."""

log = logging.getLogger(__name__)


class RuntimeState(Enum):
    """The states of a partition between gaining and losing leadership."""

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
    """Return the backoff before a reload, given the number of earlier failures."""
    doublings = min(failures_in_a_row, 16)  # avoids a huge power; the maximum comes far earlier
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
        self._commits = CommitQueue(replica, clock, self._complete, self._reload)
        self._tickets = itertools.count(1)
        self._parked = ParkedRequests()
        self._mandatory: MandatorySteps[S] = MandatorySteps()
        self._loading: asyncio.Task[None] | None = None
        self._following: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._writable_poll: asyncio.TimerHandle | None = None
        """Set from the first refused or deferred step until appends can be committed again."""
        self._failures_in_a_row = 0

    def start(self) -> None:
        """Start loading."""
        self._loading = asyncio.create_task(self._load(0.0), name=f"load {self.name}")

    def close(self) -> None:
        """End this term: waiting requests fail with NOT_COORDINATOR."""
        self.state = RuntimeState.CLOSED
        if self._loading is not None:
            self._loading.cancel()
        self._drop_state(ErrorCode.not_coordinator)

    async def wait_closed(self) -> None:
        """Wait until every task has ended; call `close` first."""
        tasks = [*self._following] + ([] if self._loading is None else [self._loading])
        if tasks:
            await asyncio.wait(tasks)

    @property
    def shard(self) -> S:
        """The state, for reading. Raises KafkaError unless it is loaded."""
        self._require_active()
        return self._shard

    @property
    def leader_epoch(self) -> int:
        """The epoch of this term of leadership, which is the coordinator's epoch."""
        return self._replica.leader_epoch

    @property
    def is_writable(self) -> bool:
        """Whether an append can be committed."""
        return not self._replica.is_under_min_isr

    async def wait_writable(self) -> None:
        """Wait until an append can be committed, or this broker stops leading."""
        while not self.is_writable:  # noqa: ASYNC110 - the replica sends no event
            await asyncio.sleep(WRITABLE_POLL_SECONDS)

    def submit(self, step: RequestStep[S], *, may_write: bool = True) -> asyncio.Future[Any]:
        """Run the step of a request; the future holds its response once it may leave.

        Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR or
        COORDINATOR_NOT_AVAILABLE. The future may fail with the last two, or with
        UNKNOWN_SERVER_ERROR if the records are too large for the log.
        """
        self._require_active()
        if not self.is_writable and (may_write or self._commits.is_waiting):
            # Before the step: undoing it needs a reload, which loses all state outside the log.
            self._poll_until_writable()
            raise KafkaError(
                ErrorCode.coordinator_not_available,
                f"{self.name} has fewer in-sync replicas than min.insync.replicas",
            )
        if self._writable_poll is not None and self.is_writable:
            self._end_wait()
        if len(self._parked) >= PARKED_REQUESTS_MAX:
            raise KafkaError(ErrorCode.coordinator_not_available, "too many requests wait")
        self._run_mandatory_steps()
        self._require_active()
        ticket = next(self._tickets)
        outcome = self._run(lambda shard, now: step(shard, ticket, now))
        future = self._parked.park(ticket)
        self._write(outcome)
        return future

    def respond_now(self, step: RequestStep[S]) -> asyncio.Future[Any]:
        """Run the step of a request that writes nothing; its response waits for no commit.

        Raises KafkaError as `submit` does.
        """
        self._require_active()
        ticket = next(self._tickets)
        outcome = self._run(lambda shard, now: step(shard, ticket, now))
        ((responded, response),) = outcome.responses
        assert responded == ticket and not outcome.records and not outcome.follow_ups
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_result(response)
        self._arm_timer()
        return future

    def run_step(self, step: Step[S]) -> None:
        """Run a step without a caller. Skip it unless the state is loaded and writable."""
        self._run_mandatory_steps()
        if self.state is RuntimeState.ACTIVE and self.is_writable:
            self._write(self._run(step))

    def run_mandatory_step(self, step: Step[S]) -> None:
        """Run a step without a caller that must not be lost while this broker leads.

        While the state loads, the step waits, and then runs before the first request. It runs again
        after each reload until its records are committed, so it must be idempotent. It runs once
        per state. While the partition is not writable it waits, and then runs before any other
        write.
        """
        if self.state not in (RuntimeState.ACTIVE, RuntimeState.LOADING):
            return
        if len(self._mandatory) >= MANDATORY_STEPS_MAX:
            log.error("%s has too many mandatory steps, the oldest is given up", self.name)
            self._mandatory.drop_oldest()
        self._mandatory.add(next(self._tickets), step)
        self._run_mandatory_steps()

    def end_transaction(
        self, producer_id: int, producer_epoch: int, marker: EndMarker
    ) -> asyncio.Future[None]:
        """Append the marker of a transaction and apply it to the shard; done when committed.

        Raises KafkaError as `submit` does, NOT_ENOUGH_REPLICAS, and errors of the log; then nothing
        has changed.
        """
        self._require_active()
        self._replica.require_in_sync_replicas()
        self._run_mandatory_steps()
        self._commits.flush()
        self._require_active()
        committed = self._commits.write_marker(producer_id, producer_epoch, marker)
        self._shard.end_transaction(producer_id, is_commit=marker.is_commit)
        return committed

    # -- steps ------------------------------------------------------------------------------

    def _now(self) -> Now:
        return Now(self._clock.now_ms(), self._clock.monotonic_ms())

    def _require_active(self) -> None:
        refusal = _REFUSALS.get(self.state)
        if refusal is not None:
            raise KafkaError(refusal, f"{self.name} is {self.state.value}")

    def _run(self, step: Step[S]) -> Outcome:
        """Run one step of the shard. If it raises, a reload undoes its changes."""
        try:
            return step(self._shard, self._now())
        except Exception as error:
            self._reload(f"a step failed: {error!r}", ErrorCode.not_coordinator)
            raise

    def _write(self, outcome: Outcome) -> None:
        self._commits.put(outcome)
        self._arm_timer()

    def _run_mandatory_steps(self) -> None:
        """Run what is due, or wait until it can be committed. This may start a reload."""
        while self._mandatory.is_due and self.state is RuntimeState.ACTIVE:
            if not self.is_writable:
                self._poll_until_writable()
                return
            ticket, step = self._mandatory.take_due()
            try:
                outcome = self._run(step)
            except Exception:
                self._mandatory.remove(ticket)  # it would fail on the next state too
                raise
            self._write(outcome.respond(ticket, None))

    def _complete(self, outcome: Outcome) -> None:
        """Release an outcome: every record up to it is committed."""
        if outcome.records:
            self._failures_in_a_row = 0
        for ticket, response in outcome.responses:
            self._mandatory.remove(ticket)
            self._parked.respond(ticket, response)
        for item in outcome.follow_ups:
            assert self._follow_up is not None, "the coordinator has no function for follow-ups"
            task = asyncio.create_task(self._follow_up(self, item), name=f"{self.name}: {item}")
            self._following.add(task)
            task.add_done_callback(self._following.discard)

    # -- loading ----------------------------------------------------------------------------

    def _reload(self, reason: str, code: ErrorCode) -> None:
        """Drop the state, which may be ahead of the log, and load it again."""
        if self.state is not RuntimeState.ACTIVE:
            return
        wait_seconds = reload_wait_seconds(self._failures_in_a_row)
        # A request that is too large for the log is no sign of a failing disk.
        self._failures_in_a_row += code is ErrorCode.not_coordinator
        log.warning("%s is loaded again in %.1f s: %s", self.name, wait_seconds, reason)
        self.state = RuntimeState.LOADING
        self._drop_state(code)
        self._loading = asyncio.create_task(self._load(wait_seconds), name=f"reload {self.name}")

    def _drop_state(self, code: ErrorCode) -> None:
        """Stop everything that would act on this state."""
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
        self._parked.fail_all(code)

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
        except Exception:
            # Serving without the state would reset consumers and forget decisions.
            log.exception("%s cannot be loaded", self.name)
            self.state = RuntimeState.FAILED
            return
        self._shard = shard
        self._commits.restart(end_offset)
        self.state = RuntimeState.ACTIVE
        took_ms = self._clock.monotonic_ms() - began_ms
        level = logging.INFO if end_offset else logging.DEBUG
        log.log(level, "%s loaded up to offset %d in %d ms", self.name, end_offset, took_ms)
        self._mandatory.make_all_due()
        self._write(outcome)
        self._run_mandatory_steps()

    # -- waiting for replicas, and timers ---------------------------------------------------

    def _poll_until_writable(self) -> None:
        """Check again later whether enough replicas are in sync."""
        if self._writable_poll is None:
            loop = asyncio.get_running_loop()
            self._writable_poll = loop.call_later(WRITABLE_POLL_SECONDS, self._on_writable_poll)

    def _on_writable_poll(self) -> None:
        if not self.is_writable:
            self._writable_poll = None
            self._poll_until_writable()
            # What was appended stays and is committed later. Its callers have to retry, as after
            # Kafka's offsets.commit.timeout.ms.
            for ticket in self._commits.parked_tickets():
                self._parked.fail(ticket, ErrorCode.coordinator_not_available)
            return
        self._end_wait()
        self._run_mandatory_steps()
        self._arm_timer()

    def _end_wait(self) -> None:
        """Stop waiting for replicas; deadlines that are set from here on are not deferred."""
        if self._writable_poll is not None:
            self._writable_poll.cancel()
            self._writable_poll = None
        self._shard.defer_timers(self._clock.monotonic_ms() + GRACE_MS)

    def _arm_timer(self) -> None:
        """Wake up at the earliest deadline. A deadline that moved back is noticed on waking."""
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
            self._poll_until_writable()
        elif self._writable_poll is None:
            self.run_step(lambda shard, now: shard.expire_timers(now))
