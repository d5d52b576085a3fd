"""Reads from one source broker: one long poll at a time, shared by all its partitions.

A poll names what changed since the last one (KIP-227, `FetchSession`), and a flow is looked at only
after it has said that it moved. So partitions that stand still cost nothing here.

While a large answer is taken in, the next poll is on its way already: it asks for what follows the
answer's last batch. What comes of it counts only where the copying state stands there by then.

Back-pressure: a partition with too many bytes pending is left out until some are acknowledged,
and while any is left out the poll is short, so that it comes back soon.

A broker keeps a session until it is told that it is over, or runs out of room: it is told when the
worker stops, and when nothing has been fetched from it for a while, because others lead now.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
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
from mirror_maker.backoff import BackOff
from mirror_maker.context import LinkContext
from mirror_maker.copy.replicator import PartitionReplicator
from mirror_maker.flow.copy_span import Copying
from mirror_maker.flow.flow import Flow
from mirror_maker.flow.topic_identity import Confirmer
from mirror_maker.metrics.lag import LastAnswer
from mirror_maker.ports import DataSource

BLOCKED_WAIT_MS: Final = 5
"""Length of a poll while some partition waits for room."""
THROTTLE_STEP_MS: Final = 200
"""Longest wait for a link's rate before it is looked at again."""
ERROR_PAUSE_MS: Final = 50
"""Pause after partitions were refused, so that a lasting refusal does not spin."""
SESSION_KEPT_MS: Final = 10_000
"""How long a session is kept of which nothing is wanted."""
SESSION_CLOSE_MS_MAX: Final = 1_000
"""How long the end of a session may take; a broker that cannot be told evicts it some day."""

logger = logging.getLogger(__name__)


class _Asked(NamedTuple):
    """For whom a partition is fetched, and from where."""

    flow: Flow
    copying: Copying
    position: int


class Fetcher:
    """The long-poll loop of one source broker."""

    def __init__(
        self,
        context: LinkContext,
        source: DataSource,
        node_id: int,
        flows: Mapping[TopicPartition, Flow],
        confirmer: Confirmer,
        on_failure: Callable[[str | None], None],
    ) -> None:
        """`source` carries nothing but long polls; `flows` are those of the link, as they come and
        go; `confirmer` is the same broker's; `on_failure` hears why a poll failed, or None when
        the broker answers."""
        self._context = context
        self._source = source
        self._node_id = node_id
        self._flows = flows
        self._confirmer = confirmer
        self._on_failure = on_failure
        self._wake = asyncio.Event()
        self._moved: dict[TopicPartition, None] = dict.fromkeys(flows)
        """What has to be looked at before the next poll."""
        self._session = FetchSession()
        self._asked: dict[TopicPartition, _Asked] = {}
        """Whose partitions the session wants; it stays as it is while a poll is on its way."""
        self._ahead: asyncio.Task[SessionAnswer] | None = None
        """The next poll, sent before the last one's answer was taken in."""
        self._last_answer = LastAnswer()
        self._pending: dict[TopicPartition, PartitionReplicator] = {}
        """Those of the link, of any broker, with bytes that are not acknowledged."""
        self._blocked: dict[TopicPartition, None] = {}
        """This broker's partitions that wait for room."""
        self._back_off = BackOff(
            context.limits.back_off_ms_min, context.limits.back_off_ms_max, context.random
        )

    def look_at(self, at: TopicPartition) -> None:
        """What is to be fetched of this partition may have changed: its flow moved, came or went,
        or another broker leads it."""
        self._moved[at] = None
        self._wake.set()

    async def run(self) -> None:
        """Fetch until cancelled; then the broker is told that it was all."""
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
            if not self._asked:
                self._on_failure(None)  # it leads nothing of the link, so nobody needs its answer
            if not self._asked or not self._has_room():
                await self._wait()
                return
        try:
            await self._fetch()
            self._back_off.reset()
            self._on_failure(None)
        except KafkaError as error:
            self._on_failure(str(error))
            self._context.directory.hurry()
            await self._context.clock.sleep(self._back_off.next_ms())

    async def _wait(self) -> None:
        """Until something moves that may change what is wanted."""
        try:
            async with asyncio.timeout(None if self._asked else SESSION_KEPT_MS / 1000):
                await self._wake.wait()
        except TimeoutError:
            await self._close_session()

    async def _close_session(self) -> None:
        """By the client for questions: the other one's connection may have a poll on its way, and
        what comes behind that waits for its end."""
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(SESSION_CLOSE_MS_MAX / 1000):
                await self._context.source.close_fetch_session(self._node_id, self._session)

    # -- what to ask for ------------------------------------------------------------------------

    def _look_at_moved(self) -> None:
        moved, self._moved = self._moved, {}
        for at in moved:
            self._look(at, self._flows.get(at))

    def _look(self, at: TopicPartition, flow: Flow | None) -> None:
        self._pending.pop(at, None)
        self._blocked.pop(at, None)
        asked = self._asked.pop(at, None)
        copying = flow.copying if flow is not None else None
        if copying is not None:
            if copying.replicator.pending_bytes:
                self._pending[at] = copying.replicator
            if copying.source_leader != self._node_id:
                copying = None
            elif copying.is_blocked:
                self._blocked[at] = None
        if flow is None or copying is None or not copying.wants_fetch:
            if asked is not None:
                asked.flow.history.unfollow(self._last_answer)
            self._session.leave_out(at)
            return
        replicator = copying.replicator
        self._ask(at, _Asked(flow, copying, replicator.fetch_position), replicator.last_epoch)
        if asked is not None and asked.flow is not flow:
            asked.flow.history.unfollow(self._last_answer)
        if asked is None or asked.flow is not flow:
            self._note_end(at, flow)

    def _ask(self, at: TopicPartition, asked: _Asked, last_epoch: int) -> None:
        topic_id = asked.copying.source_topic_id
        self._session.ask(
            at, FetchPosition(asked.position, last_fetched_epoch=last_epoch, topic_id=topic_id)
        )
        self._asked[at] = asked

    def _note_end(self, at: TopicPartition, flow: Flow) -> None:
        """A broker that goes on with a partition does not tell again what it has told: a flow that
        was not there to hear it, or not asked for since, takes it from the session."""
        end, told_ms = self._session.high_watermark(at), self._last_answer.at_ms
        if end is not None and told_ms is not None:
            flow.history.observe(end, told_ms)
            flow.history.follow(self._last_answer)

    def _pending_bytes(self) -> int:
        return sum(each.pending_bytes for each in self._pending.values())

    def _has_room(self) -> bool:
        return self._pending_bytes() < self._context.limits.pending_bytes_max

    # -- asking ---------------------------------------------------------------------------------

    async def _fetch(self) -> None:
        rate = self._context.rates.source
        if self._ahead is None:
            while delay_ms := rate.delay_ms(self._context.clock.monotonic_ms()):
                # In short steps: the rate may be raised meanwhile.
                await self._context.clock.sleep(min(delay_ms, THROTTLE_STEP_MS))
            answer = await self._poll()
        else:
            try:
                answer = await self._ahead
            finally:
                self._ahead = None
        now_ms = self._context.clock.monotonic_ms()
        if not answer.throttle_ms:
            # An answer above a quota is empty, whatever news there is.
            self._last_answer.at_ms = now_ms
        fetched = answer.partitions
        rate.spend(sum(len(each.records) for each in fetched.values()), now_ms)
        asked = {at: self._asked[at] for at in fetched if at in self._asked}
        if self._may_ask_ahead(answer, now_ms):
            self._ask_ahead(fetched, asked)
            await asyncio.sleep(0)  # it writes its request in its first step
        if self._context.origins is not None:
            try:
                await self._context.origins.learn(each.records for each in fetched.values())
            except KafkaError:
                # Nothing of the answer is taken in, while the session may be behind it already. A
                # partition without news would not be told of again, nor move by itself.
                self._moved |= dict.fromkeys(asked)
                raise
        for at, each in asked.items():
            try:
                self._on_fetched(each, fetched[at], answer, now_ms)
            except Exception as error:  # a defect must stop this flow, not the broker's others
                logger.exception("link %s: %s: internal error", self._context.settings.name, at)
                each.copying.fail(error)
        if any(partition.error for partition in fetched.values()):
            await self._context.clock.sleep(ERROR_PAUSE_MS)

    async def _poll(self) -> SessionAnswer:
        limits = self._context.limits
        return await self._source.fetch_in_session(
            self._node_id,
            self._session,
            wait_ms_max=BLOCKED_WAIT_MS if self._blocked else limits.fetch_wait_ms_max,
            bytes_max=self._context.fetch_bytes(limits.fetch_bytes_max),
            partition_bytes_max=self._context.fetch_bytes(limits.fetch_partition_bytes_max),
            isolation_level=READ_COMMITTED,
        )

    def _on_fetched(
        self, asked: _Asked, fetched: FetchedPartition, answer: SessionAnswer, now_ms: int
    ) -> None:
        flow = asked.flow
        if fetched.error:
            flow.history.unfollow(self._last_answer)
        else:
            flow.history.observe(fetched.high_watermark, now_ms)
            flow.history.follow(self._last_answer)
        if asked.copying.on_fetched(asked.position, fetched, is_of_topic_id=answer.is_by_id):
            self._confirmer.hold(asked.copying)

    # -- asking ahead ---------------------------------------------------------------------------

    def _may_ask_ahead(self, answer: SessionAnswer, now_ms: int) -> bool:
        """Whether there is much to take in, and room for as much again."""
        limits = self._context.limits
        size_bytes = 0
        for at, partition in answer.partitions.items():
            if partition.error or partition.diverging_epoch is not None:
                return False
            size_bytes += len(partition.records)
            asked = self._asked.get(at)
            pending = len(partition.records) + (
                asked.copying.replicator.pending_bytes if asked else 0
            )
            if pending + len(partition.records) >= limits.partition_pending_bytes_max:
                return False
        return (
            size_bytes >= limits.fetch_ahead_bytes_min
            and not self._context.rates.source.delay_ms(now_ms)
            and self._pending_bytes() + size_bytes < limits.pending_bytes_max
        )

    def _ask_ahead(
        self,
        fetched: Mapping[TopicPartition, FetchedPartition],
        asked: Mapping[TopicPartition, _Asked],
    ) -> None:
        """Send the next poll, as if all that was fetched had been taken in."""
        self._look_at_moved()
        if self._blocked:
            return
        for at, before in asked.items():
            last = last_header(fetched[at].records)
            if last is not None and self._asked.get(at) == before:
                after = before._replace(position=max(last.next_offset, before.position))
                self._ask(at, after, last.partition_leader_epoch)
        if self._asked:
            self._ahead = asyncio.get_running_loop().create_task(self._poll())


class Fetchers:
    """One `Fetcher`, and one `Confirmer`, per source broker of a link."""

    def __init__(
        self,
        context: LinkContext,
        polls: DataSource,
        flows: Mapping[TopicPartition, Flow],
        on_failure: Callable[[int, str | None], None],
    ) -> None:
        """`polls` is a client of the source for long polls alone; `on_failure` hears of each
        broker why it does not answer."""
        self._context = context
        self._polls = polls
        self._flows = flows
        self._on_failure = on_failure
        self._fetchers: dict[int, Fetcher] = {}

    def ensure(self, brokers: Iterable[int], tasks: asyncio.TaskGroup) -> None:
        """Read from these brokers too."""
        for node_id in brokers:
            if node_id not in self._fetchers:
                confirmer = Confirmer(self._context, self._context.source, node_id)
                fetcher = Fetcher(
                    self._context,
                    self._polls,
                    node_id,
                    self._flows,
                    confirmer,
                    partial(self._on_failure, node_id),
                )
                self._fetchers[node_id] = fetcher
                tasks.create_task(fetcher.run())
                tasks.create_task(confirmer.run())

    def look_at(self, at: TopicPartition) -> None:
        """See `Fetcher.look_at`."""
        for fetcher in self._fetchers.values():
            fetcher.look_at(at)

    def look_at_all(self) -> None:
        """The same for every partition of the link: what an operator said changed, or who leads."""
        for at in self._flows:
            self.look_at(at)
