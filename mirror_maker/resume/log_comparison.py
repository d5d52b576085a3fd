"""Steps 2 and 3 of a proof: the target's log against the map and the source. Shell.

Nothing is written, so a repair uses it as well, to find out what is wrong (`repair/examiner.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from mirror_maker.clusters.partition_log import TargetLog
from mirror_maker.formats import Block, FlowKey, Opening
from mirror_maker.ports import Clock
from mirror_maker.resume.divergence import NEIGHBOURS_MAX, check_last_copied
from mirror_maker.resume.journal_entries import lost_ranges
from mirror_maker.resume.source_log import SourceLog
from mirror_maker.resume.tail_places import find_places
from mirror_maker.resume.tail_reader import check_none_missing, read_tail
from mirror_maker.rules.gap_ranges import GapRanges
from mirror_maker.settings import LinkSettings
from mirror_maker.stores.journal_store import GapStore
from mirror_maker.tail.places import PlacedTail
from mirror_maker.tail.target_tail import ResumeBase, TargetTail, resume_base


class ComparedLogs(NamedTuple):
    """What both logs have after the end of the map."""

    tail: TargetTail
    high_watermark: int
    """The target was read up to here."""
    gaps: GapRanges
    """Source offsets that are not copied."""
    places: PlacedTail


class LogComparison:
    """Compares both logs of one flow."""

    def __init__(
        self,
        source: SourceLog,
        target: TargetLog,
        journal: GapStore,
        settings: LinkSettings,
        clock: Clock,
        quiet_ms: int,
    ) -> None:
        self._source = source
        self._target = target
        self._journal = journal
        self._clock = clock
        self._quiet_ms = quiet_ms
        topic = source.at.topic
        self._is_shared = settings.names.is_shared(topic)
        self._is_exclusive = settings.names.tells_origin(settings.source_alias, topic)

    async def read_tail(self, base: ResumeBase) -> tuple[TargetTail, int]:
        """See `tail_reader.read_tail`."""
        return await read_tail(
            self._target,
            base,
            is_exclusive=self._is_exclusive,
            clock=self._clock,
            quiet_ms=self._quiet_ms,
        )

    async def compare(self, opening: Opening, last: Block | None) -> ComparedLogs:
        """Compare from `last` on, the last block of the opening's epoch.

        Raises PairingError if the target contradicts map or source, TruncatedError if the source
        has other records than were copied, KafkaError to try again.
        """
        base = resume_base(opening, last)
        tail, high_watermark = await self.read_tail(base)
        # Read after the tail: an entry precedes every batch after its gap.
        await self._journal.catch_up()
        gaps = lost_ranges(self._journal, opening)
        if tail.is_sequence_unknown:
            await check_none_missing(self._source, base, gaps, is_shared=self._is_shared)
        places = await find_places(self._source, base, tail, gaps, self._clock)
        if last is not None and last.runs and not tail.batches:
            last_epoch = await self._check_last_copied(opening.flow, last, gaps)
            if not tail.length:
                places = places._replace(last_epoch=last_epoch)
        return ComparedLogs(tail, high_watermark, gaps, places)

    async def _check_last_copied(self, flow: FlowKey, last: Block, gaps: GapRanges) -> int:
        places = [
            (run.source_offset + n, run.target_offset + n)
            for run in last.runs[-NEIGHBOURS_MAX:]
            for n in range(max(0, run.records_count - NEIGHBOURS_MAX), run.records_count)
        ]
        position = gaps.first_outside(last.source_next)
        epoch = await check_last_copied(flow, self._source, self._target, places[::-1], position)
        return epoch if position == last.source_next else -1
