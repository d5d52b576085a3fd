"""The journal topic of one link, read and written."""

from __future__ import annotations

from .formats import Gap, GapJournal, encode_gap, gaps_topic_name
from .model import FlowFailedError
from .ports import Clock, DataSink
from .state_topic import StateTopic


class GapStore:
    """Reads and writes one link's journal. Methods raise KafkaError on trouble."""

    def __init__(self, sink: DataSink, *, link: str, replication_factor: int, clock: Clock) -> None:
        self.state = GapJournal()
        self._records = StateTopic(
            sink,
            gaps_topic_name(link),
            replication_factor=replication_factor,
            clock=clock,
            replay=self.state.replay,
        )

    async def open(self) -> None:
        """Make the topic if need be, and read it."""
        await self._records.ensure()
        await self.catch_up()

    async def catch_up(self) -> None:
        """Read everything that was acknowledged before this call."""
        await self._records.catch_up()

    async def note(self, gap: Gap) -> Gap:
        """Have a gap written down, unless one is that begins there; the one that holds."""
        await self.catch_up()
        if self._holding(gap) is None:
            await self._records.append([encode_gap(gap)])
            await self.catch_up()
        holding = self._holding(gap)
        if holding is None:
            raise FlowFailedError(f"{self._records.name} does not keep what is written to it")
        return holding

    def _holding(self, gap: Gap) -> Gap | None:
        gaps = self.state.gaps(gap.flow, gap.producer_epoch)
        return next((each for each in gaps if each.source_from == gap.source_from), None)
