"""Checks what a link publishes about completeness against both logs. It shares no rule with it.

The check knows when the source committed each record, by the simulation's clock, and compares the
records themselves: offsets, maps and positions of the mirror play no part.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import Record, decode_batch
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
        """Read what is new, and compare each partition's claim with both logs."""
        self.log.note()
        self._read()
        for at in self.world.partitions:
            known = self.topic.partition(*at)
            if known is not None and known.complete_through_ms is not None:
                self._check_claim(at, known.complete_through_ms)

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
        name = remote_topic("a", at.topic)
        if name not in self.world.target.topics:
            return []
        partition = self.world.target.partition(at._replace(topic=name))
        return [
            record
            for header, batch in partition.batches
            if header.next_offset <= partition.high_watermark
            for record in decode_batch(batch, 0, header)
        ]

    def _read(self) -> None:
        name = completeness_topic_name(LINK)
        if name not in self.world.target.topics:
            return
        partition = self.world.target.topics[name].partitions[0]
        while self._next_batch < len(partition.batches):
            header, batch = partition.batches[self._next_batch]
            if header.next_offset > partition.high_watermark:
                return
            for record in decode_batch(batch, 0, header):
                self.topic.replay(record.key, record.value)
            self._next_batch += 1

    def complete_through(self, at: TopicPartition) -> int:
        """Return what is published now; 0 if unknown."""
        self.check()
        known = self.topic.partition(*at)
        return 0 if known is None else known.complete_through_ms or 0


def _content(record: Record) -> tuple[object, ...]:
    return record.timestamp_ms, record.key, record.value, record.headers
