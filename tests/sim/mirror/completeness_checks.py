"""Checks what a link publishes about completeness against both logs. It shares no rule with it.

The check knows when the source committed each record, by the simulation's clock, and compares the
records themselves: offsets, maps and positions of the mirror play no part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import Record, decode_batch
from mirror_maker.formats.completeness.cut import SAMPLE_AGE_MS_MAX, CutReader
from mirror_maker.formats.completeness.replayed_topic import CompletenessTopic
from mirror_maker.formats.completeness.statement import completeness_topic_name
from mirror_maker.formats.naming import remote_topic
from tests.sim.kafka_double.log import SimPartition
from tests.sim.mirror.world import LINK, MirrorWorld, VirtualClock

ROUNDING_MS: Final = 1
"""The simulation's clock rounds; a real one cuts off."""


@dataclass
class CommitLog:
    """When the source committed what, as the writers of a world were used."""

    world: MirrorWorld
    committed: dict[TopicPartition, list[tuple[int, Record]]] = field(default_factory=dict)
    """Per partition the copyable records, each with the time of its commit."""

    def note(self) -> None:
        """Take in what was written at this moment."""
        now_ms = VirtualClock().now_ms()
        for at, writer in zip(self.world.partitions, self.world.writers, strict=True):
            known = self.committed.setdefault(at, [])
            known += [(now_ms, record) for record in writer.expected[len(known) :]]

    def before(self, at: TopicPartition, time_ms: int) -> list[Record]:
        """Return what was committed before a time."""
        self.note()
        return [
            record
            for committed_ms, record in self.committed[at]
            if committed_ms < time_ms - ROUNDING_MS
        ]


class CompletenessWatch:
    """Reads the topic as it grows, and checks every statement when it appears."""

    def __init__(self, world: MirrorWorld) -> None:
        self.world = world
        self.log = CommitLog(world)
        self.topic = CompletenessTopic()
        self.checks_count = 0
        self.excused: dict[TopicPartition, tuple[int, int]] = {}
        """Per partition (from, to): the statements of this time may miss records of this time."""
        self._next_batch = 0
        self._partition: SimPartition | None = None

    async def run(self) -> None:
        """Check every few milliseconds until cancelled."""
        while True:
            self.check()
            await asyncio.sleep(0.01)

    def check(self) -> None:
        """Read what is new, and compare each claim with both logs: about partitions, topics and
        the whole source."""
        self.log.note()
        has_news = self._read()
        for at in self.world.partitions:
            known = self.topic.partition(*at)
            if known is not None and known.complete_through_ms is not None:
                self._check_claim(at, known.complete_through_ms)
        topics = {None, *(at.topic for at in self.world.partitions)}
        for topic in topics if has_news else ():
            claimed_ms = self.topic_complete_through(topic)
            for at in self.world.partitions:
                if claimed_ms is not None and topic in (None, at.topic):
                    self._check_claim(at, claimed_ms)

    def topic_complete_through(self, topic: str | None) -> int | None:
        """Return what readers conclude of a topic (None: all); None if it is unknown."""
        times = [
            each.complete_through_ms
            for each in self.topic.partitions()
            if topic in (None, each.topic)
        ]
        known = [time_ms for time_ms in times if time_ms is not None]
        return min(known) if known and len(known) == len(times) else None

    def check_cut(self, as_of_ms: int) -> bool:
        """Check the cut at a time that readers of the whole topic get; return whether it is not
        refused."""
        reader = CutReader(as_of_ms)
        for record in self._records():
            reader.replay(record.value)
        cuts = reader.cuts()
        if not cuts or any(each.sample is None for each in cuts.values()):
            return False
        for at in self.world.partitions:
            committed = self.log.before(at, as_of_ms - SAMPLE_AGE_MS_MAX)
            found = cuts.get((at.topic, at.partition))
            if found is not None and found.sample is not None:
                committed = self.log.before(at, found.sample.sampled_ms)
            end = 0 if found is None or found.sample is None else found.sample.end
            assert not committed or committed[-1].offset < end, (at, as_of_ms, committed[-1], end)
        return True

    def _check_claim(self, at: TopicPartition, complete_through_ms: int) -> None:
        since_ms, until_ms = self.excused.get(at, (0, 0))
        if since_ms <= VirtualClock().now_ms() < until_ms:
            complete_through_ms = min(complete_through_ms, since_ms)
        wanted = [_content(each) for each in self.log.before(at, complete_through_ms)]
        copies = [_content(each) for each in self._copies(at)]
        assert copies[: len(wanted)] == wanted, (
            f"{at} is said to be complete through {complete_through_ms} at "
            f"{VirtualClock().now_ms()}, with {len(copies)} of {len(wanted)} records"
        )
        self.checks_count += 1

    def _copies(self, at: TopicPartition) -> list[Record]:
        copy = at._replace(topic=remote_topic("a", at.topic))
        if not self.world.target.has(copy):
            return []
        partition = self.world.target.partition(copy)
        return [
            record
            for header, batch in partition.batches
            if header.next_offset <= partition.high_watermark
            for record in decode_batch(batch, 0, header)
        ]

    def _records(self) -> Iterator[Record]:
        for header, batch in (
            self.world.target.topics[completeness_topic_name(LINK)].partitions[0].batches
        ):
            yield from decode_batch(batch, 0, header)

    def _read(self) -> bool:
        """Read what is new; return whether anything is."""
        name = completeness_topic_name(LINK)
        if name not in self.world.target.topics:
            return False
        partition = self.world.target.topics[name].partitions[0]
        before = self._next_batch
        while self._next_batch < len(partition.batches):
            header, batch = partition.batches[self._next_batch]
            if header.next_offset > partition.high_watermark:
                break
            for record in decode_batch(batch, 0, header):
                self.topic.replay(record.key, record.value)
            self._next_batch += 1
        return self._next_batch > before

    def complete_through(self, at: TopicPartition) -> int:
        """Return what is published now; 0 if unknown."""
        self.check()
        known = self.topic.partition(*at)
        return 0 if known is None else known.complete_through_ms or 0


def _content(record: Record) -> tuple[object, ...]:
    return record.timestamp_ms, record.key, record.value, record.headers
