"""Two clusters that mirror each other under identical names: every record is on each side once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from random import Random
from typing import Any, cast

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, decode_batch, encode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats import map_topic_name
from mirror_maker.formats.naming import TopicNames
from tests.sim.kafka_double.cluster import SimCluster
from tests.sim.kafka_double.network import Network
from tests.sim.mirror.world import LIMITS, TOPIC, MirrorWorld, SimWorker
from tests.sim.virtual_time import run_virtually

SEEDS = range(int(os.environ.get("SIM_SEEDS", "25")))
AT = TopicPartition(TOPIC, 0)


class Direction:
    """One of the links, in the shape that a simulated worker needs."""

    def __init__(self, both: BothWays, source: SimCluster, target: SimCluster) -> None:
        self.random, self.network = both.random, both.network
        self.source, self.target = source, target
        self.partitions = [AT]
        self.limits = LIMITS
        self.spans = None
        self.link_settings = {
            "name": f"{source.name}-{target.name}",
            "source_alias": source.name,
            "names": TopicNames(otherwise="identity"),
            "origin": "local",
        }

    def worker(self, name: str) -> SimWorker:
        worker = SimWorker(cast(MirrorWorld, self), name, lambda: None)
        worker.start()
        return worker


class BothWays:
    """Clusters `east` and `west`, a topic in each, and a link in each direction."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.network = Network(Random(self.random.getrandbits(32)))
        self.clusters = [SimCluster(name, self.random) for name in ("east", "west")]
        for cluster in self.clusters:
            cluster.create(TOPIC, 1)
        east, west = self.clusters
        self.directions = [Direction(self, east, west), Direction(self, west, east)]
        self.serial = 0
        self.native_ids = [1, 2, 3]
        self.born: dict[str, list[bytes]] = {"east": [], "west": []}

    def produce(self, batches: int) -> None:
        """Write as clients of either side, some of them as idempotent producers."""
        for _ in range(batches):
            cluster = self.random.choice(self.clusters)
            values = []
            for _ in range(self.random.randint(1, 4)):
                self.serial += 1
                values.append(f"{cluster.name} {self.serial}".encode())
            options: dict[str, Any] = {}
            if self.random.random() < 0.7:
                if self.random.random() < 0.3:
                    self.native_ids.append(10 + self.serial)
                options = {"producer_id": self.random.choice(self.native_ids), "producer_epoch": 0}
            partition = cluster.partition(AT)
            batch = encode_batch([NewRecord(1_000, None, value) for value in values], **options)
            partition.place(batch, partition.log_end_offset)
            partition.commit(partition.log_end_offset)
            self.born[cluster.name] += values

    def values(self, cluster: SimCluster) -> list[bytes]:
        return [
            record.value or b""
            for header, batch in cluster.partition(AT).batches
            for record in decode_batch(batch, 0, header)
        ]

    def check(self, *, complete: bool) -> None:
        """Check that each side has its records, and a prefix of the other's, once and in order."""
        for cluster in self.clusters:
            found = self.values(cluster)
            for name, born in self.born.items():
                here = [value for value in found if value.startswith(name.encode())]
                is_home = name == cluster.name
                assert here == (born if complete or is_home else born[: len(here)]), cluster.name

    async def settle(self, workers: list[SimWorker]) -> None:
        total = self.serial
        async with asyncio.timeout(120):
            while any(len(self.values(cluster)) < total for cluster in self.clusters):
                for worker in workers:
                    assert not worker.failures(), worker.failures()
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_no_record_comes_back(seed: int) -> None:
    """Workers killed and overlapping, responses lost and late, on both links at once."""
    run_virtually(_scenario(seed))


async def _scenario(seed: int) -> None:
    world = BothWays(seed)
    random = Random(seed)
    world.network.harm(random, lost=(0.0, 0.02), late=(0.0, 0.05))
    world.produce(10)
    workers = [direction.worker("w") for direction in world.directions]
    retired: list[SimWorker] = []
    for turn in range(6):
        await asyncio.sleep(random.uniform(0.0, 0.3))
        world.produce(random.randint(0, 10))
        world.check(complete=False)
        which = random.randrange(2)
        match random.choice(("kill", "overlap", "nothing")):
            case "kill":
                await workers[which].kill()
                workers[which] = world.directions[which].worker(f"w{turn}")
            case "overlap":
                retired.append(workers[which])
                workers[which] = world.directions[which].worker(f"w{turn}")
    world.network.heal()
    for worker in retired:
        await worker.kill()
    await world.settle(workers)
    await asyncio.sleep(5)  # every record that would come back has come back
    world.check(complete=True)
    for worker in workers:
        assert not worker.failures()
        await worker.stop()


def test_a_registration_is_read_before_later_batches_are_judged() -> None:
    """A mirror that begins to write into the source later is recognized from its first batch on."""

    async def scenario() -> None:
        world = BothWays(3)
        world.produce(5)
        forth, back = world.directions
        first = forth.worker("forth")
        await asyncio.sleep(1)
        second = back.worker("back")
        world.produce(20)
        await world.settle([first, second])
        await asyncio.sleep(5)
        world.check(complete=True)
        assert first.flows[0].totals().left_out > 0
        for worker in (first, second):
            await worker.stop()

    run_virtually(scenario())


def test_nothing_counts_as_native_if_map_topics_are_hidden() -> None:
    """The cluster does not list them then, as if there were none: every record would come back."""

    async def scenario() -> None:
        world = BothWays(5)
        forth, back = world.directions
        east, west = world.clusters
        world.produce(20)
        other = forth.worker("forth")
        async with asyncio.timeout(60):
            while len(world.values(west)) < world.serial:
                await asyncio.sleep(0.05)
        await other.stop()
        west.hidden = {map_topic_name("east-west"), map_topic_name("")}
        worker = back.worker("back")
        async with asyncio.timeout(60):
            while "may not describe topics" not in (worker.link.source_failure or ""):
                await asyncio.sleep(0.05)
        await asyncio.sleep(5)
        assert world.values(east) == world.born["east"], "nothing is copied"
        west.hidden = set()
        await world.settle([worker])
        await asyncio.sleep(5)
        world.check(complete=True)
        await worker.stop()

    run_virtually(scenario())


def test_a_burst_of_unknown_origin_is_fetched_again() -> None:
    """The next poll asked for later records, and nothing else ever moves the partition."""

    async def scenario() -> None:
        world = BothWays(6)
        world.produce(5)
        worker = world.directions[0].worker("forth")
        east, west = world.clusters
        async with asyncio.timeout(60):
            while len(world.values(west)) < len(world.born["east"]) + len(world.born["west"]):
                await asyncio.sleep(0.05)
        await asyncio.sleep(5)  # the lookups of a starting link are over
        origins = worker.origins
        assert origins is not None
        learn, failed = origins.learn, 0

        async def fail_first(fetched: Iterable[memoryview]) -> None:
            nonlocal failed
            if any(map(len, batches := list(fetched))) and not failed:
                failed += 1
                raise KafkaError(ErrorCode.network_exception, "the cluster was not asked")
            await learn(batches)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(origins, "learn", fail_first)
            partition = east.partition(AT)
            burst = b"east burst" + bytes(LIMITS.fetch_ahead_bytes_min)
            batch = encode_batch([NewRecord(1_000, None, burst)], producer_id=77, producer_epoch=0)
            partition.place(batch, partition.log_end_offset)
            partition.commit(partition.log_end_offset)
            async with asyncio.timeout(60):
                while burst not in world.values(west):
                    await asyncio.sleep(0.05)
        assert failed, "otherwise this shows nothing"
        await worker.stop()

    run_virtually(scenario())
