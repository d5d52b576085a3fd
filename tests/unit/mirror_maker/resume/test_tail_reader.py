"""What lies behind the map on a target, read while others write into it and its retention runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.records import header as h
from local_cluster.wire.errors import KafkaError
from mirror_maker.context import LinkContext
from mirror_maker.formats.naming import TopicNames
from mirror_maker.model import DescribedProducer
from mirror_maker.resume.tail_reader import read_tail
from mirror_maker.tail.target_tail import TailReader
from tests.unit.mirror_maker.resume.test_pairing import EPOCH, MAPPED, PID, own, records

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("copy", 0)
QUIET_MS = 60_000


class Target:
    """A log [10, 20) of which nothing is ours; the map ends at 6, sequence 6."""

    def __init__(self) -> None:
        self.log = self.theirs(10, 10)
        self.first, self.end = 10, 20
        self.told: DescribedProducer | None = DescribedProducer(EPOCH, 5)
        self.waited_ms: list[int] = []
        self.on_asked: Callable[[], None] = lambda: None
        """What happens just before the target first tells of our producer."""
        self.on_waited: Callable[[], None] = lambda: None

    @staticmethod
    def theirs(offset: int, count: int) -> bytes:
        return own(offset, records(0, count), -1, producer_id=-1, producer_epoch=-1)

    def arrive(self, *, committed: bool = True) -> None:
        """Three records of ours, sequences 6 to 8."""
        self.told = DescribedProducer(EPOCH, 8)
        if committed:
            self.commit()

    def commit(self) -> None:
        self.log += own(self.end, records(6, 3), 6)
        self.end += 3

    def trim(self, before: int) -> None:
        kept = [at for at, each in h.iter_headers(self.log) if each.base_offset >= before]
        self.first, self.log = before, self.log[kept[0] :] if kept else b""

    async def read(self, names: TopicNames) -> tuple[TailReader, int]:
        context = SimpleNamespace(
            settings=SimpleNamespace(names=names, source_alias="a"),
            limits=SimpleNamespace(epoch_quiet_ms=QUIET_MS),
            map_store=SimpleNamespace(registration=SimpleNamespace(producer_id=PID)),
            directory=SimpleNamespace(target_leader=lambda at: 1),
            clock=self,
            sink=self,
            sink_logs=self,
        )
        return await read_tail(cast(LinkContext, context), MAPPED, SOURCE, TARGET)

    # -- clock, sink_logs and sink, as far as a tail needs them ------------------------------------

    async def sleep(self, duration_ms: int) -> None:
        self.waited_ms.append(duration_ms)
        self.on_waited()

    async def bounds(self, at: TopicPartition) -> tuple[int, int]:
        return self.first, self.end

    async def fetch(
        self, leader: int, positions: Mapping[TopicPartition, FetchPosition], **limits: Any
    ) -> dict[TopicPartition, Any]:
        position = positions[TARGET].offset
        assert position >= self.first
        return {TARGET: SimpleNamespace(error=0, records=self._from(position))}

    def _from(self, position: int) -> memoryview:
        for start, header in h.iter_headers(self.log):
            if header.next_offset > position:
                return memoryview(self.log)[start:]
        return memoryview(b"")

    async def describe_producer(self, *args: object) -> DescribedProducer | None:
        self.on_asked()
        self.on_asked = lambda: None
        return self.told


SHARED = TopicNames(otherwise="identity")
OWN = TopicNames()


@pytest.mark.parametrize("names", [SHARED, OWN, TopicNames(map={"orders": "copy"})])
async def test_a_write_that_came_since_the_log_was_read_is_not_missing(names: TopicNames) -> None:
    target = Target()
    target.on_asked = target.arrive
    with pytest.raises(KafkaError, match="does not rest yet"):
        await target.read(names)
    tail, end = await target.read(names)
    assert [batch.header.base_offset for batch in tail.batches] == [20]
    assert (tail.missing_count, tail.next_sequence, end) == (0, 9, 23)


async def test_a_write_that_is_committed_only_later_is_not_missing() -> None:
    target = Target()
    target.on_asked = lambda: target.arrive(committed=False)
    target.on_waited = target.commit
    with pytest.raises(KafkaError, match="does not rest yet"):
        await target.read(SHARED)


@pytest.mark.parametrize("told", [DescribedProducer(EPOCH, 5), None])
async def test_a_write_that_was_lost_with_its_leader_is_not_missing(
    told: DescribedProducer | None,
) -> None:
    target = Target()
    target.on_asked = lambda: target.arrive(committed=False)
    target.on_waited = lambda: setattr(target, "told", told)
    with pytest.raises(KafkaError, match="does not rest yet"):
        await target.read(SHARED)


async def test_what_rests_is_missing() -> None:
    target = Target()
    target.told = DescribedProducer(EPOCH, 8)
    target.on_waited = lambda: setattr(target, "end", 25)
    target.log += target.theirs(20, 5)
    tail, end = await target.read(SHARED)
    assert (tail.missing_count, tail.next_sequence, end) == (3, 9, 25)
    assert target.waited_ms == [QUIET_MS]


async def test_retention_does_not_keep_a_proof_from_its_end() -> None:
    target = Target()
    target.told = DescribedProducer(EPOCH, 8)

    def trim() -> None:
        target.log += target.theirs(20, 10) + target.theirs(30, 5)
        target.end = 35
        target.trim(30)

    target.on_waited = trim
    tail, end = await target.read(SHARED)
    assert (tail.missing_count, end) == (3, 35)


@pytest.mark.parametrize(
    ("names", "last_sequence"),
    [(SHARED, 5), (OWN, 5), (OWN, 9)],
    ids=["none, shared", "none", "all"],
)
async def test_nobody_waits_where_nothing_is_missing_or_all_that_went_was_ours(
    names: TopicNames, last_sequence: int
) -> None:
    target = Target()
    target.told = DescribedProducer(EPOCH, last_sequence)
    tail, _ = await target.read(names)
    assert (tail.missing_count, target.waited_ms) == (last_sequence - 5, [])
