"""The tail on a target, read while others write into the target and its retention runs."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from local_cluster.client.model import FetchedPartition, TopicPartition
from local_cluster.records import header as h
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.log_offsets import LogOffsets
from mirror_maker.clusters.partition_log import TargetLog
from mirror_maker.formats.naming import TopicNames
from mirror_maker.model import DescribedProducer
from mirror_maker.resume.log_comparison import LogComparison
from mirror_maker.resume.source_log import SourceLog
from mirror_maker.settings import LinkSettings
from mirror_maker.stores.link_stores import LinkStores
from mirror_maker.tail.target_tail import TargetTail
from tests.sim.kafka_double.client import SimClient
from tests.sim.kafka_double.cluster import SimCluster
from tests.sim.kafka_double.network import Network
from tests.unit.mirror_maker.resume.test_pairing import EPOCH, MAPPED, own, records

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("copy", 0)
QUIET_MS = 60_000


class Target(TargetLog):
    """A log [10, 20) without batches of ours; the map ends at 6, sequence 6. Also a clock."""

    def __init__(self) -> None:
        self.at = TARGET
        self.log = self.theirs(10, 10)
        self.start, self.next_offset = 10, 20
        self.told: DescribedProducer | None = DescribedProducer(EPOCH, 5)
        self.waited_ms: list[int] = []
        self.on_asked: Callable[[], None] = lambda: None
        """Called just before the target first describes our producer."""
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
        self.log += own(self.next_offset, records(6, 3), 6)
        self.next_offset += 3

    def trim(self, before: int) -> None:
        kept = [at for at, each in h.iter_headers(self.log) if each.base_offset >= before]
        self.start, self.log = before, self.log[kept[0] :] if kept else b""

    async def read_tail(self, names: TopicNames) -> tuple[TargetTail, int]:
        """Read it as the tail of `SOURCE` under these names."""
        client = SimClient(SimCluster("a", Random(1)), Network(Random(1)))
        leaders = {SOURCE: 0}
        source = SourceLog(
            SOURCE,
            client,
            LogOffsets(client, leaders.get),
            leaders.get,
            origins=None,
            rules=None,
            fetch_bytes_max=None,
        )
        settings = LinkSettings(name="a-b", source_alias="a", source_bootstrap="-", names=names)
        stores = LinkStores(client, settings, worker_id="w", clock=self, random=Random(1))
        comparison = LogComparison(source, self, stores.journal, settings, self, QUIET_MS)
        return await comparison.read_tail(MAPPED)

    # -- the clock, and what a tail needs of the log -----------------------------------------------

    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return 0

    async def sleep(self, duration_ms: int) -> None:
        self.waited_ms.append(duration_ms)
        self.on_waited()

    async def bounds(self) -> tuple[int, int]:
        return self.start, self.next_offset

    async def fetch(
        self,
        offset: int,
        *,
        bytes_max: int = 0,
        isolation_level: int = 0,
        last_fetched_epoch: int = -1,
    ) -> FetchedPartition:
        assert offset >= self.start
        end = self.next_offset
        return FetchedPartition(ErrorCode.none, end, end, self.start, (), self._from(offset))

    def _from(self, position: int) -> memoryview:
        for start, header in h.iter_headers(self.log):
            if header.next_offset > position:
                return memoryview(self.log)[start:]
        return memoryview(b"")

    async def describe_producer(self, producer_id: int) -> DescribedProducer | None:
        self.on_asked()
        self.on_asked = lambda: None
        return self.told


SHARED = TopicNames(otherwise="identity")
OWN = TopicNames()


@pytest.mark.parametrize("names", [SHARED, OWN, TopicNames(map={"orders": "copy"})])
async def test_a_write_after_the_log_was_read_is_not_missing(names: TopicNames) -> None:
    target = Target()
    target.on_asked = target.arrive
    with pytest.raises(KafkaError, match="is not quiet yet"):
        await target.read_tail(names)
    tail, end = await target.read_tail(names)
    assert [batch.header.base_offset for batch in tail.batches] == [20]
    assert (tail.missing_count, tail.next_sequence, end) == (0, 9, 23)


async def test_a_write_that_is_committed_only_later_is_not_missing() -> None:
    target = Target()
    target.on_asked = lambda: target.arrive(committed=False)
    target.on_waited = target.commit
    with pytest.raises(KafkaError, match="is not quiet yet"):
        await target.read_tail(SHARED)


@pytest.mark.parametrize("told", [DescribedProducer(EPOCH, 5), None])
async def test_a_write_that_was_lost_with_its_leader_is_not_missing(
    told: DescribedProducer | None,
) -> None:
    target = Target()
    target.on_asked = lambda: target.arrive(committed=False)
    target.on_waited = lambda: setattr(target, "told", told)
    with pytest.raises(KafkaError, match="is not quiet yet"):
        await target.read_tail(SHARED)


async def test_copies_are_missing_after_a_quiet_period() -> None:
    target = Target()
    target.told = DescribedProducer(EPOCH, 8)
    target.on_waited = lambda: setattr(target, "next_offset", 25)
    target.log += target.theirs(20, 5)
    tail, end = await target.read_tail(SHARED)
    assert (tail.missing_count, tail.next_sequence, end) == (3, 9, 25)
    assert target.waited_ms == [QUIET_MS]


async def test_retention_does_not_stop_a_proof() -> None:
    target = Target()
    target.told = DescribedProducer(EPOCH, 8)

    def trim() -> None:
        target.log += target.theirs(20, 10) + target.theirs(30, 5)
        target.next_offset = 35
        target.trim(30)

    target.on_waited = trim
    tail, end = await target.read_tail(SHARED)
    assert (tail.missing_count, end) == (3, 35)


@pytest.mark.parametrize(
    ("names", "last_sequence"),
    [(SHARED, 5), (OWN, 5), (OWN, 9)],
    ids=["none, shared", "none", "all"],
)
async def test_nobody_waits_if_nothing_is_missing_or_all_lost_records_were_ours(
    names: TopicNames, last_sequence: int
) -> None:
    target = Target()
    target.told = DescribedProducer(EPOCH, last_sequence)
    tail, _ = await target.read_tail(names)
    assert (tail.missing_count, target.waited_ms) == (last_sequence - 5, [])
