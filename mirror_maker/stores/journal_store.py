"""The journal topic of one link, read and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from mirror_maker.formats import FlowKey, Gap, GapJournal, encode_gap, gaps_topic_name
from mirror_maker.formats.gaps import GapKind, encode_gap_key
from mirror_maker.model import FlowFailedError
from mirror_maker.ports import Clock, DataSink
from mirror_maker.rules.gap_ranges import GapRanges
from mirror_maker.stores.state_topic import StateTopic

NOTE_ATTEMPTS_MAX: Final = 4
"""Writes of one note. Each after the first follows an entry of another worker."""
ENTRIES_PER_WRITE_MAX: Final = 250
"""Entries that fit into one batch (`state_topic.WRITE_BYTES_MAX`): each has less than 2 kB."""


class GapStore:
    """One link's journal. Methods raise KafkaError.

    The topic must exist: the link creates `records` when it opens.
    """

    def __init__(
        self,
        sink: DataSink,
        *,
        link: str,
        worker_id: str,
        replication_factor: int,
        clock: Clock,
        random: Random,
    ) -> None:
        self.state = GapJournal()
        self._link = link
        self._worker_id = worker_id
        self._clock = clock
        self._random = random
        self.records = StateTopic(
            sink,
            gaps_topic_name(link),
            replication_factor=replication_factor,
            clock=clock,
            replay=self.state.replay,
        )

    async def catch_up(self) -> None:
        """Read every entry that was acknowledged before this call."""
        await self.records.catch_up()

    def new_nonce(self) -> int:
        return self._random.getrandbits(63)

    def new_entry(
        self,
        flow: FlowKey,
        *,
        producer_epoch: int,
        target_topic: str,
        source_from: int,
        source_to: int | None,
        reason: str,
        detail: str,
        target_offset: int,
        records_count: int | None = None,
        kind: GapKind = GapKind.LOST,
        copied_count: int | None = None,
        target_to: int | None = None,
        nonce: int | None = None,
    ) -> Gap:
        """Return an entry by this worker, by default with a new nonce; nothing is written."""
        return Gap(
            flow=flow,
            producer_epoch=producer_epoch,
            nonce=self.new_nonce() if nonce is None else nonce,
            link=self._link,
            target_topic=target_topic,
            source_from=source_from,
            source_to=source_to,
            records_count=records_count,
            reason=reason,
            detail=detail,
            target_offset=target_offset,
            noticed_at_ms=self._clock.now_ms(),
            worker_id=self._worker_id,
            kind=kind,
            copied_count=copied_count,
            target_to=target_to,
        )

    async def take_back(self, gap: Gap) -> None:
        """Delete an entry that turned out to be wrong."""
        await self.records.append([(encode_gap_key(gap), None)])
        await self.catch_up()

    async def note(self, gap: Gap) -> Gap:
        """Write what the journal does not yet say of a gap; return the entry that holds at its
        start.

        A worker that dies before it writes the map leaves its entries to the next one. That one may
        find more: records that the source lost since, or copies made since.
        """
        return (await self.note_all([gap]))[0]

    async def note_all(self, gaps: Sequence[Gap]) -> list[Gap]:
        """Write at most `ENTRIES_PER_WRITE_MAX` gaps in one write: all or none of them."""
        assert len(gaps) <= ENTRIES_PER_WRITE_MAX, len(gaps)
        await self.catch_up()
        missing = self._all_missing(gaps)
        for _ in range(NOTE_ATTEMPTS_MAX):
            if not missing:
                break
            await self._write(missing)
            # Another worker's shorter entry may have come first, and hold: the rest is due.
            missing = self._all_missing(gaps)
        if missing:
            raise FlowFailedError(f"{self.records.name} does not keep what is written to it")
        return [found for found in map(self._holding, gaps) if found is not None]

    def _all_missing(self, gaps: Sequence[Gap]) -> list[Gap]:
        return [part for gap in gaps for part in self._missing(gap)]

    async def _write(self, missing: Sequence[Gap]) -> None:
        replaced = [self._holding(gap) for gap in missing if gap.kind is GapKind.COPIED]
        await self.records.append([encode_gap(part) for part in missing])
        gone = [(encode_gap_key(each), None) for each in replaced if each is not None]
        if gone:
            await self.records.append(gone)
        await self.catch_up()

    def _missing(self, gap: Gap) -> list[Gap]:
        """Return the parts of an entry that the journal does not say yet."""
        if gap.kind is GapKind.LOST and gap.source_to is not None:
            known = GapRanges(
                (each.source_from, each.source_to)
                for each in self.state.gaps(gap.flow, gap.producer_epoch)
                if each.source_to is not None
            )
            parts = list(known.uncovered(gap.source_from, gap.source_to))
            if parts == [(gap.source_from, gap.source_to)]:
                return [gap]
            return [
                replace(gap, source_from=start, source_to=end, records_count=None)
                for start, end in parts
            ]
        holding = self._holding(gap)
        if holding is None:
            return [gap]
        # The new entry includes the copies of the older one.
        grows = gap.kind is GapKind.COPIED and gap.extent > holding.extent
        return [gap] if grows else []

    def _holding(self, gap: Gap) -> Gap | None:
        """Return the entry in which this one begins."""
        is_range = gap.kind is GapKind.LOST and gap.source_to is not None
        for each in self.state.entries(gap.flow, gap.producer_epoch, gap.kind):
            if is_range and each.source_to is not None:
                if each.source_from <= gap.source_from < each.source_to:
                    return each
            elif each.place == gap.place and (
                gap.kind is not GapKind.LOST or each.source_to is gap.source_to is None
            ):
                return each
        return None
