"""The two topics of one link's audit: receipts and verdicts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from mirror_maker.formats import MapFormatError
from mirror_maker.formats.receipts import Receipts, encode_receipts, receipts_topic_name
from mirror_maker.formats.verdicts import VerdictRecord, VerdictTopic, verdicts_topic_name
from mirror_maker.ports import Clock, DataSink
from mirror_maker.stores.replaceable_topic import ReplaceableTopic
from mirror_maker.stores.state_topic import StateTopic

RECEIPTS_KEPT_MS: Final = 24 * 3_600_000
"""Retention of the receipts topic: what the audit does not compare within this stays UNVERIFIED."""


RECEIPTS_SEGMENT_MS: Final = 3_600_000
"""Retention takes whole segments."""
VERDICTS_SEGMENT_BYTES: Final = 8 * 1024 * 1024

logger = logging.getLogger(__name__)


class AuditTopics:
    """Reads and writes them. Methods raise KafkaError on trouble."""

    def __init__(self, sink: DataSink, *, link: str, replication_factor: int, clock: Clock) -> None:
        self.verdicts = VerdictTopic()
        """What the verdicts topic says, as far as it was read."""
        self.receipts_name = receipts_topic_name(link)
        self._sink = sink
        self._link = link
        self._replication_factor = replication_factor
        self._clock = clock
        self._receipts = ReplaceableTopic(self._make_receipts)
        self._verdicts = ReplaceableTopic(self._make_verdicts)

    @property
    def topics(self) -> list[StateTopic]:
        """Both, to be created."""
        return [self._receipts.records, self._verdicts.records]

    async def write_receipts(self, entries: Sequence[Receipts]) -> None:
        """Done when acknowledged."""
        await self._receipts.append([(None, encode_receipts(entry)) for entry in entries])

    async def write_verdicts(self, records: Sequence[VerdictRecord]) -> None:
        """Done when acknowledged."""
        await self._verdicts.append(records)

    async def read_verdicts(self) -> None:
        """Read everything acknowledged before this call."""
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
        # Only closed segments are cleaned, and every worker reads all of it at its start.
        configs = {"cleanup.policy": "compact", "segment.bytes": str(VERDICTS_SEGMENT_BYTES)}
        return self._topic(verdicts_topic_name(self._link), configs)

    def _replay(self, key: bytes | None, value: bytes | None) -> None:
        try:
            self.verdicts.replay(key, value)
        except MapFormatError as error:  # what it said is found again, or stays UNVERIFIED
            logger.warning("%s: %s", verdicts_topic_name(self._link), error)

    def _topic(self, name: str, configs: dict[str, str] | None) -> StateTopic:
        return StateTopic(
            self._sink,
            name,
            replication_factor=self._replication_factor,
            clock=self._clock,
            replay=self._replay,
            configs=configs,
        )
