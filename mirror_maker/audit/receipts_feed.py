"""Hands the records of the receipts topic to the flows that they are about. Shell."""

from __future__ import annotations

import logging
from collections.abc import Callable

from local_cluster.records.batch import Record
from mirror_maker.audit.cpu_budget import CpuMeter
from mirror_maker.audit.flow_audit import FlowAudit
from mirror_maker.audit.receipt_offsets import ReceiptOffsets
from mirror_maker.audit.receipts_reader import ReceiptsReader
from mirror_maker.formats import MapFormatError
from mirror_maker.formats.receipts import decode_receipts, flow_id_of

log = logging.getLogger(__name__)


class ReceiptsFeed:
    """The receipts of all flows that one auditor audits. Methods that wait raise KafkaError."""

    def __init__(
        self, reader: ReceiptsReader, meter: CpuMeter, on_given: Callable[[FlowAudit], None]
    ) -> None:
        """`on_given` is called with each flow that has taken a record."""
        self.offsets = ReceiptOffsets()
        self._reader = reader
        self._meter = meter
        self._on_given = on_given
        self._audits: dict[int, FlowAudit] = {}
        """By flow id."""

    def add(self, audit: FlowAudit) -> None:
        """Take up a flow; it gets the records that its published progress does not have."""
        self._audits[audit.flow_id] = audit
        self.offsets.add(audit.flow_id, audit.published_receipts_next)

    def remove(self, audit: FlowAudit) -> None:
        self._audits.pop(audit.flow_id, None)
        self.offsets.remove(audit.flow_id)

    async def find(self) -> None:
        """Find the leader of the receipts topic, and whether it is still the same topic."""
        reader = self._reader
        if await reader.find():
            self.offsets.restart(reader.start_offset)
            for audit in self._audits.values():
                audit.restart_receipts(reader.topic_id, reader.start_offset)

    async def read(self) -> bool:
        """Read from the first record for which some flow has room; return whether any came.

        Raises MapFormatError too.
        """
        reader = self._reader
        if not reader.is_found:
            await self.find()
        position = self.offsets.next(len(self._audits), self._has_room)
        if position is None:
            return False
        fetched, is_gone = await reader.fetch(position)
        if is_gone:
            await self.find()
            self.offsets.lose(reader.start_offset, reader.end_offset)
            return False
        self.offsets.begin(position)
        taking = reader.take(fetched, position, self._give)
        next_offset = await self._meter.in_pieces(taking, len(fetched.records))
        if next_offset == position:
            return False
        self.offsets.reach(next_offset)
        return True

    def _has_room(self, flow_id: int) -> bool:
        return self._audits[flow_id].check.wants_receipts

    def _give(self, record: Record) -> None:
        if record.value is None:
            return
        try:
            flow_id = flow_id_of(record.value)
            audit = self._audits.get(flow_id)
            if audit is None or not self.offsets.is_due(flow_id, record.offset):
                return
            if not audit.check.wants_receipts:
                self.offsets.refuse(flow_id, record.offset)
                return
            entry = decode_receipts(record.value)
        except MapFormatError as error:  # its batches stay UNVERIFIED
            log.warning("%s: offset %d: %s", self._reader.name, record.offset, error)
            return
        audit.expect(entry, record.offset, record.timestamp_ms)
        self.offsets.give(flow_id, record.offset)
        self._on_given(audit)
