"""The two topics of one link's audit on the target: receipts and verdicts.

The copies do not depend on them. A topic that was deleted or truncated is created and read from its
start again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import MapFormatError
from mirror_maker.formats.receipts import Receipts, encode_receipts, receipts_topic_name
from mirror_maker.formats.verdict_topic import VerdictTopic
from mirror_maker.formats.verdicts import VerdictRecord, verdicts_topic_name
from mirror_maker.model import LinkFailedError
from mirror_maker.ports import Clock, DataSink
from mirror_maker.stores.state_topic import Pair, StateTopic

RECEIPTS_KEPT_MS: Final = 24 * 3_600_000
"""Retention of the receipts topic. Batches that are not compared within it stay UNVERIFIED."""
RECEIPTS_SEGMENT_MS: Final = 3_600_000
"""Retention deletes whole segments."""
VERDICTS_SEGMENT_BYTES: Final = 8 * 1024 * 1024

log = logging.getLogger(__name__)


class ReplaceableTopic:
    """A topic of state that is created, or re-created, as needed. Methods raise KafkaError."""

    def __init__(self, make: Callable[[], StateTopic]) -> None:
        """`make` returns a topic that was not read yet, with an empty state behind it."""
        self._make = make
        self.records = make()
        self._is_ensured = False
        self._ensuring = asyncio.Lock()
        self._is_well = True
        """Whether a read or write has succeeded since the topic was replaced."""

    async def catch_up(self) -> None:
        """Read every record that was acknowledged before this call."""
        await self._on_topic(StateTopic.catch_up)

    async def append(self, pairs: Sequence[Pair]) -> None:
        """Write records; return when they are acknowledged."""
        await self._on_topic(lambda records: records.append(pairs))

    async def _on_topic(self, work: Callable[[StateTopic], Awaitable[None]]) -> None:
        """Do the work; if the topic was gone, replace it and do the work once more."""
        records = self.records
        try:
            await self._attempt(records, work)
            if records is self.records:
                return
            # Another caller has replaced the topic meanwhile: this work is lost.
        except LinkFailedError as error:
            self._replace(records, error)
        except KafkaError as error:
            if error.code != ErrorCode.unknown_topic_or_partition:
                raise
            self._replace(records, error)
        try:
            await self._attempt(self.records, work)
        except LinkFailedError as error:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, str(error)) from error

    async def _attempt(
        self, records: StateTopic, work: Callable[[StateTopic], Awaitable[None]]
    ) -> None:
        async with self._ensuring:
            if records is self.records and not self._is_ensured:
                await records.ensure()
                self._is_ensured = records is self.records
        await work(records)
        self._is_well = self._is_well or records is self.records

    def _replace(self, records: StateTopic, error: Exception) -> None:
        if records is not self.records:
            return
        if self._is_well:
            log.warning("%s starts over: %s", records.name, error)
        self._is_well = self._is_ensured = False
        self.records = self._make()


class AuditTopics:
    """Reads and writes both topics. Methods raise KafkaError."""

    def __init__(self, sink: DataSink, *, link: str, replication_factor: int, clock: Clock) -> None:
        self.verdicts = VerdictTopic()
        """The verdicts topic, replayed as far as it was read."""
        self.receipts_name = receipts_topic_name(link)
        self._sink = sink
        self._link = link
        self._replication_factor = replication_factor
        self._clock = clock
        self._receipts = ReplaceableTopic(self._make_receipts)
        self._verdicts = ReplaceableTopic(self._make_verdicts)

    @property
    def topics(self) -> list[StateTopic]:
        """Return both topics, to be created."""
        return [self._receipts.records, self._verdicts.records]

    async def write_receipts(self, entries: Sequence[Receipts]) -> None:
        """Write receipts; return when they are acknowledged."""
        await self._receipts.append([(None, encode_receipts(entry)) for entry in entries])

    async def write_verdicts(self, records: Sequence[VerdictRecord]) -> None:
        """Write verdicts; return when they are acknowledged."""
        await self._verdicts.append(records)

    async def read_verdicts(self) -> None:
        """Read every verdict that was acknowledged before this call."""
        await self._verdicts.catch_up()

    def _make_receipts(self) -> StateTopic:
        configs = {
            "cleanup.policy": "delete",
            "retention.ms": str(RECEIPTS_KEPT_MS),
            "segment.ms": str(RECEIPTS_SEGMENT_MS),
        }
        return self._topic(self.receipts_name, configs)

    def _make_verdicts(self) -> StateTopic:
        self.verdicts = VerdictTopic()
        # Only closed segments are cleaned, and every worker reads the whole topic when it starts.
        configs = {"cleanup.policy": "compact", "segment.bytes": str(VERDICTS_SEGMENT_BYTES)}
        return self._topic(verdicts_topic_name(self._link), configs)

    def _replay(self, key: bytes | None, value: bytes | None) -> None:
        try:
            self.verdicts.replay(key, value)
        except MapFormatError as error:  # the audit finds the same again, or it stays UNVERIFIED
            log.warning("%s: %s", verdicts_topic_name(self._link), error)

    def _topic(self, name: str, configs: dict[str, str] | None) -> StateTopic:
        return StateTopic(
            self._sink,
            name,
            replication_factor=self._replication_factor,
            clock=self._clock,
            replay=self._replay,
            configs=configs,
        )
