"""Reads from one source broker: one long poll at a time, shared by all its partitions.

A poll names what changed since the last one (KIP-227, `FetchSession`), and a flow is looked at only
after it has said that it moved. So partitions that stand still cost nothing here.

Back-pressure: a partition with too many bytes pending is left out until some are acknowledged,
and while any is left out the poll is short, so that it comes back soon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from local_cluster.client.fetch_session import FetchSession
from local_cluster.client.model import FetchedPartition, FetchPosition, TopicPartition
from local_cluster.wire.errors import KafkaError

from .back_off import BackOff
from .context import READ_COMMITTED, LinkContext
from .copying import Copying
from .flow import Flow
from .identity import Confirmer
from .lag import LastAnswer
from .ports import DataSource
from .replicator import PartitionReplicator

BLOCKED_WAIT_MS: Final = 5
"""Length of a poll while some partition waits for room."""
THROTTLE_STEP_MS: Final = 200
"""Longest wait for a link's rate before it is looked at again."""
ERROR_PAUSE_MS: Final = 50
"""Pause after partitions were refused, so that a lasting refusal does not spin."""


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
        """Whose partitions the session wants."""
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
        """Fetch until cancelled."""
        while True:
            self._wake.clear()
            self._look_at_moved()
            if not self._asked or not self._has_room():
                await self._wake.wait()
                continue
            try:
                await self._fetch()
                self._back_off.reset()
                self._on_failure(None)
            except KafkaError as error:
                self._on_failure(str(error))
                self._context.directory.hurry()
                await self._context.clock.sleep(self._back_off.next_ms())

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
        position = replicator.fetch_position
        self._session.ask(at, FetchPosition(position, last_fetched_epoch=replicator.last_epoch))
        self._asked[at] = _Asked(flow, copying, position)
        if asked is not None and asked.flow is not flow:
            asked.flow.history.unfollow(self._last_answer)
        if asked is None or asked.flow is not flow:
            self._note_end(at, flow)

    def _note_end(self, at: TopicPartition, flow: Flow) -> None:
        """A broker that goes on with a partition does not tell again what it has told: a flow that
        was not there to hear it, or not asked for since, takes it from the session."""
        end, told_ms = self._session.high_watermark(at), self._last_answer.at_ms
        if end is not None and told_ms is not None:
            flow.history.observe(end, told_ms)
            flow.history.follow(self._last_answer)

    def _has_room(self) -> bool:
        pending_bytes = sum(each.pending_bytes for each in self._pending.values())
        return pending_bytes < self._context.limits.pending_bytes_max

    # -- asking ---------------------------------------------------------------------------------

    async def _fetch(self) -> None:
        limits, rate = self._context.limits, self._context.rates.source
        while delay_ms := rate.delay_ms(self._context.clock.monotonic_ms()):
            # In short steps: the rate may be raised meanwhile.
            await self._context.clock.sleep(min(delay_ms, THROTTLE_STEP_MS))
        answer = await self._source.fetch_in_session(
            self._node_id,
            self._session,
            wait_ms_max=BLOCKED_WAIT_MS if self._blocked else limits.fetch_wait_ms_max,
            bytes_max=self._context.fetch_bytes(limits.fetch_bytes_max),
            partition_bytes_max=self._context.fetch_bytes(limits.fetch_partition_bytes_max),
            isolation_level=READ_COMMITTED,
        )
        now_ms = self._context.clock.monotonic_ms()
        if not answer.throttle_ms:
            # An answer above a quota is empty, whatever news there is.
            self._last_answer.at_ms = now_ms
        fetched = answer.partitions
        rate.spend(sum(len(each.records) for each in fetched.values()), now_ms)
        if self._context.origins is not None:
            await self._context.origins.learn(each.records for each in fetched.values())
        for at, partition in fetched.items():
            self._on_fetched(at, partition, now_ms)
        if any(partition.error for partition in fetched.values()):
            await self._context.clock.sleep(ERROR_PAUSE_MS)

    def _on_fetched(self, at: TopicPartition, fetched: FetchedPartition, now_ms: int) -> None:
        asked = self._asked.get(at)
        if asked is None:
            return
        flow = asked.flow
        if fetched.error:
            flow.history.unfollow(self._last_answer)
        else:
            flow.history.observe(fetched.high_watermark, now_ms)
            flow.history.follow(self._last_answer)
        if asked.copying.on_fetched(asked.position, fetched):
            self._confirmer.hold(asked.copying)


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
