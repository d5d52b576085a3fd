"""Publishes completeness: once a second what has changed, at times everything. Shell.

The copies do not depend on it. A failed write is repeated as a vector in the next round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

from local_cluster.client.model import TopicPartition
from local_cluster.records.header import iter_headers
from local_cluster.wire.constants import LATEST_TIMESTAMP
from local_cluster.wire.errors import KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.clusters.topic_directory import Directory
from mirror_maker.completeness.statements import Statements
from mirror_maker.flow.copy_session import CopySession
from mirror_maker.flow.flow import Flow
from mirror_maker.formats.completeness.statement import (
    NO_HOLD,
    Entry,
    Hold,
    HoldKind,
    encode_statement,
)
from mirror_maker.model import FlowState
from mirror_maker.periodic import PeriodicTask, pause_of
from mirror_maker.ports import Clock
from mirror_maker.resume.source_log import LinkLogs
from mirror_maker.stores.audit_topics import ReplaceableTopic

CONFIRMED_PER_REQUEST_MAX: Final = 1_000
"""Partitions of one ListOffsets that confirms leader epochs."""
OPEN_TRANSACTION_MS: Final = 2_000
"""How long a transaction holds a partition back before its producer is looked up."""
LOOKUPS_PER_ROUND_MAX: Final = 16
"""Lookups of producers in one round; the others follow in the next ones."""
LOOKUP_BYTES_MAX: Final = 64 * 1024
"""Bytes to read for the first batch of a transaction."""

_STOPPED: Final = frozenset(
    {FlowState.FAILED, FlowState.PAUSED, FlowState.HELD, FlowState.SOURCE_GONE}
)


class CompletenessPublisher:
    """The completeness of one worker's part of a link; `run` until cancelled."""

    def __init__(
        self,
        link: str,
        flows: Mapping[TopicPartition, Flow],
        statements: Statements,
        topic: ReplaceableTopic,
        *,
        logs: LinkLogs,
        directory: Directory,
        clock: Clock,
        backoff: Backoff,
        completeness_ms: int,
    ) -> None:
        """`flows` are the link's, as they come and go."""
        self._flows = flows
        self._statements = statements
        self._topic = topic
        self._logs = logs
        self._directory = directory
        self._clock = clock
        self._changed: set[TopicPartition] = set(flows)
        self._producers: dict[TopicPartition, tuple[int, int]] = {}
        """Per partition with an open transaction: its first offset and its producer id."""
        self._task = PeriodicTask(
            self.publish,
            link=link,
            what_failed="completeness not published",
            pause=pause_of(clock, completeness_ms),
            backoff=backoff,
        )
        self.run = self._task.run

    @property
    def failure(self) -> str | None:
        """Why the last round was not written; None after a success."""
        return self._task.failure

    def look_at(self, at: TopicPartition) -> None:
        """Note that this partition may have something new."""
        self._changed.add(at)

    async def publish(self) -> None:
        """Write one round. Raises KafkaError."""
        await self._confirm_epochs()
        await self._find_producers()
        # From here on nothing awaits before all is encoded: the times of sessions and the
        # partitions that follow them belong together.
        changed, self._changed = self._changed, set()
        entries: dict[TopicPartition, Entry] = {}
        released: list[TopicPartition] = []
        for at in changed:
            flow = self._flows.get(at)
            entry = self._entry(at, flow)
            if entry is not None:
                entries[at] = entry
            if flow is None:
                released.append(at)
            elif entry is None or entry.session is None or entry.hold is not NO_HOLD:
                self._changed.add(at)  # time alone may change what is known of it
        statements = self._statements.next_round(
            entries,
            self._directory.listing.newest,
            self._clock.now_ms(),
            self._clock.monotonic_ms(),
        )
        for at in released:
            self._statements.forget(at)
            self._producers.pop(at, None)
        try:
            await self._topic.append([(None, encode_statement(each)) for each in statements])
        except BaseException:
            self._statements.failed()
            raise

    def _entry(self, at: TopicPartition, flow: Flow | None) -> Entry | None:
        """Return what to state of a partition; None if it was never copied here."""
        stated = self._statements.stated(at)
        if flow is None:
            return None if stated is None else stated._replace(session=None)
        session = flow.session
        if session is None:
            return (
                None if stated is None else stated._replace(session=None, hold=_hold_of_state(flow))
            )
        now_ms, ends, replicator = self._clock.now_ms(), flow.ends, session.replicator
        ends.withdraw_doubted(now_ms)
        sample, position = ends.sample(), replicator.source_next
        followed = ends.session
        return Entry(
            topic=at.topic,
            topic_id=session.key.source_topic_id,
            partition=at.partition,
            generation=max(0, replicator.producer_epoch),
            position=position,
            session=None if followed is None else self._statements.session_index(followed),
            epoch=ends.stated_epoch(now_ms),
            sampled_ms=None if sample is None else sample.asked_ms,
            end=None if sample is None else sample.end,
            complete_through_ms=ends.complete_through(position),
            proved_through_ms=ends.proved_through(position),
            gaps=sum(gap.flow == session.key for gap in flow.gaps()),
            hold=self._hold(at, flow, session),
        )

    def _hold(self, at: TopicPartition, flow: Flow, session: CopySession) -> Hold:
        hold = _hold_of_state(flow)
        if hold is not NO_HOLD or not _waits_for_transaction(flow, session):
            return hold
        ends = flow.ends
        offset, producer_id = self._producers.get(at, (-1, -1))
        if offset != ends.stable_end:
            producer_id = -1
        return Hold(HoldKind.OPEN_TRANSACTION, producer_id, ends.stable_since_ms)

    # -- leader epochs --------------------------------------------------------------------------

    async def _confirm_epochs(self) -> None:
        """Ask new leaders whether they know what their predecessors acknowledged."""
        waiting: dict[int, list[TopicPartition]] = defaultdict(list)
        for at in self._changed:
            flow = self._flows.get(at)
            leader = self._directory.source_leader(at)
            if flow is not None and leader is not None and flow.ends.needs_confirmation:
                waiting[leader].append(at)
        for leader, partitions in waiting.items():
            for start in range(0, len(partitions), CONFIRMED_PER_REQUEST_MAX):
                with suppress(KafkaError):  # the next round asks again
                    await self._confirm(
                        leader, partitions[start : start + CONFIRMED_PER_REQUEST_MAX]
                    )

    async def _confirm(self, leader: int, partitions: list[TopicPartition]) -> None:
        epochs = {at: self._flows[at].ends.epoch for at in partitions if at in self._flows}
        listed = await self._logs.list_source_offsets(
            leader, dict.fromkeys(epochs, LATEST_TIMESTAMP)
        )
        now_ms = self._clock.now_ms()
        for at, epoch in epochs.items():
            flow, found = self._flows.get(at), listed.get(at)
            if flow is None or found is None or found.error:
                continue
            if found.leader_epoch in (-1, epoch):
                flow.ends.confirm(epoch, now_ms)

    # -- open transactions ----------------------------------------------------------------------

    async def _find_producers(self) -> None:
        """Look up the producers of transactions that hold partitions back for long."""
        for at in list(islice(self._unknown_producers(), LOOKUPS_PER_ROUND_MAX)):
            flow = self._flows.get(at)
            offset = None if flow is None else flow.ends.stable_end
            if offset is None:
                continue
            with suppress(KafkaError):  # the next round asks again
                fetched = await self._logs.source(at).read(offset, bytes_max=LOOKUP_BYTES_MAX)
                first = next(iter_headers(fetched.records), None)
                if first is not None:
                    self._producers[at] = offset, first[1].producer_id

    def _unknown_producers(self) -> list[TopicPartition]:
        latest_ms = self._clock.now_ms() - OPEN_TRANSACTION_MS
        unknown: list[TopicPartition] = []
        for at in self._changed:
            flow = self._flows.get(at)
            if flow is None or flow.session is None or flow.ends.stable_since_ms > latest_ms:
                continue
            known = self._producers.get(at, (-1, -1))[0]
            if _waits_for_transaction(flow, flow.session) and known != flow.ends.stable_end:
                unknown.append(at)
        return unknown


def _hold_of_state(flow: Flow) -> Hold:
    state = flow.current_state()
    return Hold(HoldKind.STOPPED, state=state.value) if state in _STOPPED else NO_HOLD


def _waits_for_transaction(flow: Flow, session: CopySession) -> bool:
    """Return whether everything before an open transaction is copied, and nothing else is due."""
    sample, stable_end = flow.ends.sample(), flow.ends.stable_end
    return (
        sample is not None
        and stable_end is not None
        and stable_end < sample.end
        and session.replicator.source_next >= stable_end
    )
