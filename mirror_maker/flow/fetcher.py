"""Reads from one source broker: one long poll at a time, shared by all its partitions. Shell.

A poll names what changed since the last one (KIP-227, `FetchSession`). A flow is looked at only
after it reported that it moved. So idle partitions cost nothing here.

While a large response is taken in, the next poll is in flight already: it asks for what follows the
response's last batches. Its response counts only if the flow's session stands there by then.

Back-pressure: a partition with too many pending bytes is left out until some are acknowledged.
While any is left out the poll is short, so that it returns soon.

A broker keeps a fetch session until the client closes it, or until it needs the slot. The session
is closed when the worker stops, and when nothing was wanted from the broker for a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from local_cluster.client.fetch_session import FetchSession
from local_cluster.client.model import (
    FetchedPartition,
    FetchPosition,
    SessionAnswer,
    TopicPartition,
)
from local_cluster.records.header import last_header
from local_cluster.wire.constants import READ_COMMITTED
from local_cluster.wire.errors import KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.clusters.origins import Origins
from mirror_maker.clusters.throttle import Throttle
from mirror_maker.copy.replicator import PartitionReplicator
from mirror_maker.flow.end_sampling import EndSampler, FetchedFlow
from mirror_maker.flow.flow import Flow
from mirror_maker.flow.topic_confirmer import TopicConfirmer
from mirror_maker.metrics.lag import LastAnswer
from mirror_maker.ports import Clock, DataSource
from mirror_maker.settings import Limits

BLOCKED_WAIT_MS: Final = 5
"""Length of a poll while some partition waits for room."""
THROTTLE_STEP_MS: Final = 200
"""Longest wait for a link's rate before the rate is read again."""
ERROR_PAUSE_MS: Final = 50
"""Pause after partitions were refused, so that a lasting refusal does not spin."""
SESSION_IDLE_MS: Final = 10_000
"""How long a session is kept from which nothing is wanted."""
SESSION_CLOSE_MS_MAX: Final = 1_000
"""Time limit of closing a session; otherwise the broker evicts it later."""

log = logging.getLogger(__name__)


class SourceAccess(NamedTuple):
    """How a link reads its source."""

    link: str
    polls: DataSource
    """A client that carries nothing but long polls."""
    requests: DataSource
    """The client for everything else."""
    rate: Throttle
    origins: Origins | None
    """Set if only records born at the source are copied."""
    fetch_bytes_max: int | None
    """The limit of a fetch of a link with rules for records."""
    hurry: Callable[[], None]
    """Asks for a round of discovery."""
    leader_epoch_of: Callable[[TopicPartition], int]
    """The leader epoch that discovery saw, -1 if unknown. Fetches name it."""
    on_sampled: Callable[[TopicPartition], None]
    """Called when a partition has another end, or stops or begins to have samples of it."""


class Fetcher:
    """The long-poll loop of one source broker."""

    def __init__(
        self,
        access: SourceAccess,
        node_id: int,
        flows: Mapping[TopicPartition, Flow],
        confirmer: TopicConfirmer,
        *,
        limits: Limits,
        clock: Clock,
        backoff: Backoff,
        on_failure: Callable[[str | None], None],
    ) -> None:
        """`flows` are those of the link, as they come and go; `confirmer` is the same broker's.
        `on_failure` gets the reason why a poll failed, or None when the broker answers."""
        self._access = access
        self._node_id = node_id
        self._flows = flows
        self._confirmer = confirmer
        self._limits = limits
        self._clock = clock
        self._backoff = backoff
        self._on_failure = on_failure
        self._wake = asyncio.Event()
        self._moved: dict[TopicPartition, None] = dict.fromkeys(flows)
        """Partitions to look at before the next poll."""
        self._session = FetchSession()
        self._wanted: dict[TopicPartition, FetchedFlow] = {}
        """The partitions of the session. It does not change while a poll is in flight."""
        self._ahead: asyncio.Task[tuple[SessionAnswer, int]] | None = None
        """The next poll, sent before the last response was taken in."""
        self._last_answer = LastAnswer(node_id)
        self._sampler = EndSampler(self._session, self._last_answer, access.on_sampled)
        self._pending: dict[TopicPartition, PartitionReplicator] = {}
        """Replicators of the link, on any broker, with unacknowledged bytes."""
        self._blocked: dict[TopicPartition, None] = {}
        """This broker's partitions that wait for room."""

    def look_at(self, at: TopicPartition) -> None:
        """Look at a partition before the next poll.

        Its flow moved, came or went, or another broker leads it.
        """
        self._moved[at] = None
        self._wake.set()

    async def run(self) -> None:
        """Fetch until cancelled, then close the session."""
        try:
            while True:
                await self._turn()
        finally:
            if self._ahead is not None:
                self._ahead.cancel()
            await self._close_session()

    async def _turn(self) -> None:
        if self._ahead is None:
            self._wake.clear()
            self._look_at_moved()
            if not self._wanted:
                self._on_failure(None)  # it leads nothing of the link, so its failure is no matter
            if not self._wanted or not self._has_room():
                await self._wait()
                return
        try:
            await self._fetch()
            self._backoff.reset()
            self._on_failure(None)
        except KafkaError as error:
            self._on_failure(str(error))
            self._access.hurry()
            await self._backoff.wait()

    async def _wait(self) -> None:
        """Wait until a partition is to be looked at."""
        try:
            async with asyncio.timeout(None if self._wanted else SESSION_IDLE_MS / 1000):
                await self._wake.wait()
        except TimeoutError:
            await self._close_session()

    async def _close_session(self) -> None:
        """Close the session by the other client: this one may have a poll in flight, and requests
        on its connection wait for the poll's end."""
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(SESSION_CLOSE_MS_MAX / 1000):
                await self._access.requests.close_fetch_session(self._node_id, self._session)

    # -- what to fetch --------------------------------------------------------------------------

    def _look_at_moved(self) -> None:
        moved, self._moved = self._moved, {}
        for at in moved:
            self._look(at, self._flows.get(at))

    def _look(self, at: TopicPartition, flow: Flow | None) -> None:
        self._pending.pop(at, None)
        self._blocked.pop(at, None)
        before = self._wanted.pop(at, None)
        session = flow.session if flow is not None else None
        if session is not None:
            if session.replicator.pending_bytes:
                self._pending[at] = session.replicator
            if session.source_leader != self._node_id:
                session = None
            elif session.is_blocked:
                self._blocked[at] = None
        if flow is None or session is None or not session.wants_fetch:
            if before is not None:
                before.flow.history.unfollow(self._last_answer)
                self._sampler.end(at, before)
            self._session.remove(at)
            return
        replicator = session.replicator
        wanted = FetchedFlow(
            flow, session, replicator.fetch_position, self._access.leader_epoch_of(at)
        )
        self._want(at, wanted, replicator.last_epoch)
        if before is not None and before.flow is not flow:
            before.flow.history.unfollow(self._last_answer)
        if before is None or before.flow is not flow:
            self._note_end(at, flow)
        if before is None or (before.session, before.leader_epoch) != (
            session,
            wanted.leader_epoch,
        ):
            if before is not None:
                self._sampler.end(at, before)
            self._sampler.begin(at)

    def _want(self, at: TopicPartition, wanted: FetchedFlow, last_epoch: int) -> None:
        topic_id = wanted.session.source_topic_id
        self._session.add(
            at, FetchPosition(wanted.position, wanted.leader_epoch, last_epoch, topic_id)
        )
        self._wanted[at] = wanted

    def _note_end(self, at: TopicPartition, flow: Flow) -> None:
        """Take the partition's end from the session.

        A broker does not repeat in a session what it has reported before. So a flow that is new to
        the session would not learn it.
        """
        end, at_ms = self._session.high_watermark(at), self._last_answer.at_ms
        if end is not None and at_ms is not None:
            flow.history.observe(end, at_ms)
            flow.history.follow(self._last_answer)

    def _pending_bytes(self) -> int:
        return sum(each.pending_bytes for each in self._pending.values())

    def _has_room(self) -> bool:
        return self._pending_bytes() < self._limits.pending_bytes_max

    # -- fetching -------------------------------------------------------------------------------

    async def _fetch(self) -> None:
        answer, asked_ms = await self._next_answer()
        now_ms = self._clock.monotonic_ms()
        if not answer.throttle_ms:
            # A response above a quota is empty, whatever the source has.
            self._sampler.take(answer, asked_ms, self._wanted)
            self._last_answer.at_ms = now_ms
        fetched = answer.partitions
        self._access.rate.spend(sum(len(each.records) for each in fetched.values()), now_ms)
        wanted = {at: self._wanted[at] for at in fetched if at in self._wanted}
        if self._may_fetch_ahead(answer, now_ms):
            self._fetch_ahead(fetched, wanted)
            await asyncio.sleep(0)  # the task writes its request in its first step
        if self._access.origins is not None:
            try:
                await self._access.origins.learn(each.records for each in fetched.values())
            except KafkaError:
                # Nothing of the response is taken in, while the session may be past it already. The
                # broker would not report a partition without news again, nor would it move.
                self._moved |= dict.fromkeys(wanted)
                raise
        for at, each in wanted.items():
            try:
                self._on_fetched(each, fetched[at], answer, now_ms)
            except Exception as error:  # a defect must stop this flow, not the broker's others
                log.exception("link %s: %s: internal error", self._access.link, at)
                each.session.fail(error)
        if any(partition.error for partition in fetched.values()):
            await self._clock.sleep(ERROR_PAUSE_MS)

    async def _next_answer(self) -> tuple[SessionAnswer, int]:
        if self._ahead is None:
            while delay_ms := self._access.rate.delay_ms(self._clock.monotonic_ms()):
                # In short steps: the rate may be raised meanwhile.
                await self._clock.sleep(min(delay_ms, THROTTLE_STEP_MS))
            return await self._poll()
        try:
            return await self._ahead
        finally:
            self._ahead = None

    async def _poll(self) -> tuple[SessionAnswer, int]:
        """Return a response, and the wall clock just before its request was written."""
        limits, asked_ms = self._limits, self._clock.now_ms()
        answer = await self._access.polls.fetch_in_session(
            self._node_id,
            self._session,
            wait_ms_max=BLOCKED_WAIT_MS if self._blocked else limits.fetch_wait_ms_max,
            bytes_max=self._bounded(limits.fetch_bytes_max),
            partition_bytes_max=self._bounded(limits.fetch_partition_bytes_max),
            isolation_level=READ_COMMITTED,
        )
        return answer, asked_ms

    def _bounded(self, bytes_max: int) -> int:
        limit = self._access.fetch_bytes_max
        return bytes_max if limit is None else min(bytes_max, limit)

    def _on_fetched(
        self, wanted: FetchedFlow, fetched: FetchedPartition, answer: SessionAnswer, now_ms: int
    ) -> None:
        flow = wanted.flow
        if fetched.error:
            flow.history.unfollow(self._last_answer)
        else:
            flow.history.observe(fetched.high_watermark, now_ms)
            flow.history.follow(self._last_answer)
        if wanted.session.on_fetched(wanted.position, fetched, is_of_topic_id=answer.is_by_id):
            self._confirmer.hold(wanted.session)

    # -- fetching ahead -------------------------------------------------------------------------

    def _may_fetch_ahead(self, answer: SessionAnswer, now_ms: int) -> bool:
        """Return whether there is much to take in, and room for as much again."""
        limits = self._limits
        size_bytes = 0
        for at, partition in answer.partitions.items():
            if partition.error or partition.diverging_epoch is not None:
                return False
            size_bytes += len(partition.records)
            wanted = self._wanted.get(at)
            pending = len(partition.records) + (
                wanted.session.replicator.pending_bytes if wanted else 0
            )
            if pending + len(partition.records) >= limits.partition_pending_bytes_max:
                return False
        return (
            size_bytes >= limits.fetch_ahead_bytes_min
            and not self._access.rate.delay_ms(now_ms)
            and self._pending_bytes() + size_bytes < limits.pending_bytes_max
        )

    def _fetch_ahead(
        self,
        fetched: Mapping[TopicPartition, FetchedPartition],
        wanted: Mapping[TopicPartition, FetchedFlow],
    ) -> None:
        """Send the next poll, as if everything fetched had been taken in."""
        self._look_at_moved()
        if self._blocked:
            return
        for at, before in wanted.items():
            last = last_header(fetched[at].records)
            if last is not None and self._wanted.get(at) == before:
                after = before._replace(position=max(last.next_offset, before.position))
                self._want(at, after, last.partition_leader_epoch)
        if self._wanted:
            self._ahead = asyncio.get_running_loop().create_task(self._poll())
