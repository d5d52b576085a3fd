"""Topics of two clusters merged into one of a third: each record once, each map exact."""

from __future__ import annotations

import asyncio
import os
from random import Random
from typing import cast

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import Record, decode_batch
from mirror_maker.formats import MapTopic, map_topic_name
from mirror_maker.formats.naming import TopicNames
from mirror_maker.formats.probe import MERGED_PROBE_COPY, probe_topic_name

from .kafka_double_cluster import SimCluster
from .kafka_double_network import Network
from .mirror_world import LIMITS, TOPIC, MirrorWorld, SimWorker, SourceWriter
from .virtual_time import run_virtually

SEEDS = range(int(os.environ.get("SIM_SEEDS", "20")))


class Source:
    """One of the sources and its link, in the shape that a worker of the simulation asks for."""

    def __init__(self, world: Merge, name: str, partitions: int) -> None:
        self.random, self.network, self.limits = world.random, world.network, LIMITS
        self.spans = None
        self.source, self.target = SimCluster(name, world.random), world.target
        topic = world.source_topic(f"{name}-all")
        self.source.create(topic, partitions)
        self.partitions = [TopicPartition(topic, index) for index in range(partitions)]
        self.writers = [
            SourceWriter(self.source.partition(at), Random(world.random.getrandbits(32)))
            for at in self.partitions
        ]
        self.link_settings = {
            "name": f"{name}-all",
            "source_alias": name,
            "names": TopicNames(merge=(TOPIC,)),
            "origin": "local",
            "probe": world.probe,
        }

    def worker(self, name: str) -> SimWorker:
        worker = SimWorker(cast(MirrorWorld, self), name, lambda: None)
        worker.start()
        return worker


class Merge:
    """Sources `east` and `west` of unequal partition counts, and their target."""

    def __init__(self, seed: int, *, probe: bool = False) -> None:
        """With `probe` the topic of each source is its link's probe topic."""
        self.probe = probe
        self.copy = MERGED_PROBE_COPY if probe else TOPIC
        self.random = Random(seed)
        self.network = Network(Random(self.random.getrandbits(32)))
        self.target = SimCluster("all", self.random)
        self.sources = [Source(self, "east", 1), Source(self, "west", 1 if probe else 2)]

    def source_topic(self, link: str) -> str:
        return probe_topic_name(link) if self.probe else TOPIC

    def produce(self, batches: int) -> None:
        for _ in range(batches):
            self.random.choice(self.random.choice(self.sources).writers).write()

    def copies(self, partition: int) -> list[Record]:
        return [
            record
            for header, batch in self.target.partition(TopicPartition(self.copy, partition)).batches
            for record in decode_batch(batch, 0, header)
        ]

    @property
    def copied_count(self) -> int:
        if self.copy not in self.target.topics:
            return 0
        partitions = self.target.topics[self.copy].partitions
        return sum(len(self.copies(i)) for i in range(len(partitions)))

    @property
    def expected_count(self) -> int:
        return sum(len(writer.expected) for source in self.sources for writer in source.writers)

    def check(self) -> None:
        """Every record of either source once; the map of each link names the places of its own."""
        assert self.copied_count == self.expected_count
        for source in self.sources:
            topic = MapTopic()
            map_log = self.target.topics[map_topic_name(str(source.link_settings["name"]))]
            for header, batch in map_log.partitions[0].batches:
                for record in decode_batch(batch, 0, header):
                    topic.replay(record.key, record.value)
            for at, writer in zip(source.partitions, source.writers, strict=True):
                flow = topic.latest_flow(at.topic, at.partition)
                assert flow is not None
                offset_map = topic.offset_map(flow)
                assert offset_map is not None
                copies = {record.offset: record for record in self.copies(at.partition)}
                places = [
                    (run.source_offset + n, run.target_offset + n)
                    for run in offset_map.runs()
                    for n in range(run.records_count)
                ]
                assert [source for source, _ in places] == [r.offset for r in writer.expected]
                for (_, target), original in zip(places, writer.expected, strict=True):
                    assert copies[target][1:] == original[1:]


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_several_links_write_into_one_topic(seed: int) -> None:
    """Workers killed and overlapping, answers lost and late, on both links at once."""
    run_virtually(_scenario(Merge(seed), seed))


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_probes_of_several_links_run_into_one_partition(seed: int) -> None:
    """The source topics have names of their own, their copies have one."""
    run_virtually(_scenario(Merge(seed, probe=True), seed))


async def _scenario(world: Merge, seed: int) -> None:
    random = Random(seed)
    world.network.harm(random, lost=(0.0, 0.02), late=(0.0, 0.05))
    world.produce(10)
    workers = [source.worker("w") for source in world.sources]
    retired: list[SimWorker] = []
    for turn in range(6):
        await asyncio.sleep(random.uniform(0.0, 0.3))
        world.produce(random.randint(0, 10))
        which = random.randrange(2)
        match random.choice(("kill", "overlap", "nothing")):
            case "kill":
                await workers[which].kill()
                workers[which] = world.sources[which].worker(f"w{turn}")
            case "overlap":
                retired.append(workers[which])
                workers[which] = world.sources[which].worker(f"w{turn}")
    world.network.heal()
    for worker in retired:
        await worker.kill()
    async with asyncio.timeout(120):
        while world.copied_count < world.expected_count:
            for worker in workers:
                assert not worker.failures(), worker.failures()
            await asyncio.sleep(0.05)
    await asyncio.sleep(5)  # whatever is still on its way arrives
    for worker in workers:
        assert not worker.failures()
        await worker.stop()
    world.check()
