"""The journal topic of one link, read and written."""

from __future__ import annotations

from .formats import FlowKey, Gap, GapJournal, encode_gap, gaps_topic_name
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
        if self.find(gap.flow, gap.source_from) is None:
            await self._records.append([encode_gap(gap)])
            await self.catch_up()
        holding = self.find(gap.flow, gap.source_from)
        if holding is None:
            raise FlowFailedError(f"{self._records.name} does not keep what is written to it")
        return holding

    def find(self, flow: FlowKey, source_from: int) -> Gap | None:
        """The gap of a flow that begins there and holds."""
        return next((g for g in self.state.gaps(flow) if g.source_from == source_from), None)
