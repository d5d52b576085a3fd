"""The journal topic of one link, read and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .formats import Gap, GapJournal, encode_gap, gaps_topic_name
from .formats.gaps import encode_gap_key
from .model import FlowFailedError
from .ports import Clock, DataSink
from .state_topic import StateTopic

ENTRIES_PER_WRITE_MAX: Final = 250
"""One batch holds them (`state_topic.WRITE_BYTES_MAX`): an entry has less than two kilobytes."""


class GapStore:
    """Reads and writes one link's journal. Methods raise KafkaError on trouble.

    The topic must be there: `records` is made by who opens the link.
    """

    def __init__(self, sink: DataSink, *, link: str, replication_factor: int, clock: Clock) -> None:
        self.state = GapJournal()
        self.records = StateTopic(
            sink,
            gaps_topic_name(link),
            replication_factor=replication_factor,
            clock=clock,
            replay=self.state.replay,
        )

    async def catch_up(self) -> None:
        """Read everything that was acknowledged before this call."""
        await self.records.catch_up()

    async def take_back(self, gap: Gap) -> None:
        """Delete an entry that turned out to be wrong."""
        await self.records.append([(encode_gap_key(gap), None)])
        await self.catch_up()

    async def note(self, gap: Gap) -> Gap:
        """Have a gap written down, unless one is that begins there; the one that holds."""
        return (await self.note_all([gap]))[0]

    async def note_all(self, gaps: Sequence[Gap]) -> list[Gap]:
        """The same for several, in one write: all of them are there afterwards, or none.

        At most `ENTRIES_PER_WRITE_MAX`.
        """
        assert len(gaps) <= ENTRIES_PER_WRITE_MAX, len(gaps)
        await self.catch_up()
        missing = [gap for gap in gaps if self._holding(gap) is None]
        if missing:
            await self.records.append([encode_gap(gap) for gap in missing])
            await self.catch_up()
        holding = [found for found in map(self._holding, gaps) if found is not None]
        if len(holding) < len(gaps):
            raise FlowFailedError(f"{self.records.name} does not keep what is written to it")
        return holding

    def _holding(self, gap: Gap) -> Gap | None:
        entries = self.state.entries(gap.flow, gap.producer_epoch, gap.kind)
        return next((each for each in entries if each.place == gap.place), None)
