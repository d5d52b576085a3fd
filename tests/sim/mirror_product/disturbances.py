"""The disturbances of a cell, turn by turn: of the source's logs, and of the workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.cluster.names import Anomaly
from tests.sim.kafka_double.log import SimPartition
from tests.sim.kafka_double.network import Killed
from tests.sim.mirror_product.cells import BOTH_WAYS, LOSSES
from tests.sim.mirror_product.process import MirrorProcess
from tests.sim.mirror_product.world import ProductWorld
from tests.sim.mirror_product.writing import NAME_HEADER, History

STORM: Final = ("kill", "unmapped", "overlap", "leaders", "deletions", "foreign", "none")
STEPS_TO_LIVE_MAX: Final = 400
GROWN_MAX: Final = 3
BURST_MAX: Final = 4


class Fuse:
    """Kills a process at one of its next steps on the network."""

    def __init__(self) -> None:
        self.left: int | None = None

    def __call__(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                raise Killed


class Disturbances:
    """Changes of the source, and faults of one cell."""

    def __init__(self, world: ProductWorld, random: Random) -> None:
        self.happened: list[str] = []
        self._world = world
        self._random = random
        self._intrusions = 0
        self._fuses: dict[MirrorProcess, Fuse] = {}
        self._unmapped: list[MirrorProcess] = []
        """Workers that cannot write their map any more."""

    async def begin(self) -> None:
        """Disturb the world before any worker starts."""
        if self._world.cell.fault in ("network", "storm"):
            self._world.network.harm(self._random, lost=(0.01, 0.02, 0.05), late=(0.0, 0.02, 0.1))
        if self._world.cell.state in ("retention", "cleaned"):
            await self._change_sources()

    async def turn(self) -> None:
        """Disturb the world between two bursts of writing."""
        await self._change_sources()
        fault = self._world.cell.fault
        if fault == "storm":
            fault = self._random.choice(STORM)
        act: Callable[[], Any] | None = getattr(self, f"_do_{fault}", None)
        if act is not None:
            await act()
        self._replace_dead()
        self._world.assign_all()

    async def end(self) -> None:
        """End all faults."""
        world = self._world
        for process in world.retired:
            process.wake()
        await asyncio.sleep(self._random.uniform(0.0, 1.0))
        world.network.heal()
        for process in world.retired:
            if defects := process.defects():
                raise Anomaly(f"a worker that was replaced: {defects[:3]}")
            await process.kill()
        for process in self._unmapped:
            if process in world.processes:
                await process.kill()
        for process in world.processes:
            self._fuse(process).left = None
        self._replace_dead()

    @property
    def _loses_records(self) -> bool:
        cell = self._world.cell
        return cell.state in LOSSES or cell.fault in ("deletions", "storm")

    def _note(self, what: str) -> None:
        self.happened.append(what)

    # -- workers --------------------------------------------------------------------------------

    def _fuse(self, process: MirrorProcess) -> Fuse:
        if process not in self._fuses:
            self._fuses[process] = process.outer_step = Fuse()
        return self._fuses[process]

    def _replace_dead(self) -> None:
        for process in list(self._world.processes):
            if process.is_dead:
                self._world.replace_process(process)

    def _any_process(self) -> MirrorProcess:
        return self._random.choice(self._world.processes)

    async def _do_kill(self) -> None:
        process = self._any_process()
        if self._random.random() < 0.5:
            await process.kill()
            self._note("kill")
        else:
            self._fuse(process).left = self._random.randint(1, STEPS_TO_LIVE_MAX)
            self._note("fuse")

    async def _do_unmapped(self) -> None:
        """Kill a worker one turn after its map cannot be written any more."""
        for process in [each for each in self._unmapped if each in self._world.processes]:
            await process.kill()
            self._note("kill unmapped")
            return
        process = self._any_process()
        for link in process.links.values():
            link.map_store.append = _refuse_to_write  # type: ignore[method-assign,assignment]
        self._unmapped.append(process)

    async def _do_overlap(self) -> None:
        world = self._world
        paused = [process for process in world.retired if process.is_paused]
        if paused and self._random.random() < 0.5:
            self._random.choice(paused).wake()
            self._note("wake")
            return
        process = self._any_process()
        if self._loses_records:
            # Two valid leases at once are harmless only while the source keeps what was read.
            process.lease.valid = False
        world.replace_process(process)
        world.retired.append(process)
        if self._random.random() < 0.6:
            process.pause()
            self._note("pause")
        else:
            self._note("overlap")

    async def _do_leaders(self) -> None:
        for cluster in self._world.clusters.values():
            for at in list(cluster.leaders):
                if at.topic in cluster.topics and self._random.random() < 0.3:
                    cluster.move_leader(at)
        self._note("leaders")

    # -- sources --------------------------------------------------------------------------------

    async def _change_sources(self) -> None:
        act: Callable[[], Any] | None = getattr(self, f"_be_{self._world.cell.state}", None)
        if act is not None:
            await act()

    def _sources(self) -> list[History]:
        """Return partitions that links copy and that are no copies themselves.

        Clients of a shared copy keep what they wrote.
        """
        targets = set(self._world.topology.targets)
        return [each for each in self._world.living if each.cluster not in targets]

    def _some(self) -> list[History]:
        living = self._sources()
        return self._random.sample(living, self._random.randint(0, len(living)))

    async def _be_cleaned(self) -> None:
        for history in self._some():
            history.compact(self._random)
        self._note("clean")

    async def _be_retention(self) -> None:
        for history in self._some():
            history.writer.write_plain(1)
            history.retain_from(
                self._random.randint(history.log.log_start_offset, history.log.high_watermark)
            )
        self._note("retention")

    async def _be_recreated(self) -> None:
        if self._random.random() < 0.5:
            return
        history = self._random.choice(self._sources())
        cluster, topic = history.cluster, history.topic
        partitions = 0
        for each in self._world.living:
            if (each.cluster, each.topic) == (cluster, topic):
                each.is_deleted = True
                partitions += 1
        if self._random.random() < 0.5:
            del self._world.clusters[cluster].topics[topic]
            await asyncio.sleep(self._random.uniform(0.0, 1.5))
        self._world.create(cluster, topic, partitions)
        # The mirror may read records of the new topic before it learns of it.
        for history in self._world.histories[-partitions:]:
            for _ in range(self._random.randint(0, BURST_MAX)):
                history.writer.write()
        self._note("recreate")

    async def _be_grown(self) -> None:
        history = self._random.choice(self._world.living)
        cluster = self._world.clusters[history.cluster]
        partitions = cluster.topics[history.topic].partitions
        for _ in range(self._random.randint(0, GROWN_MAX)):
            at = TopicPartition(history.topic, len(partitions))
            cluster.leaders[at] = at.partition % cluster.brokers
            partitions.append(SimPartition())
            self._world.note_partition(history.cluster, *at)
            self._note("grow")

    async def _do_deletions(self) -> None:
        """Kill workers with unmapped copies; the source loses records before the next start."""
        world = self._world
        killed = [each for each in self._unmapped if each in world.processes]
        if not killed:
            await self._do_unmapped()
            return
        for process in killed:
            await process.kill()
        for history in self._some():
            if world.cell.state in ("compacted", "cleaned") and self._random.random() < 0.5:
                history.compact(self._random)
            else:
                first, end = history.log.log_start_offset, history.log.high_watermark
                history.retain_from(self._random.randint(first, end))
        self._note("deletions")

    async def _do_foreign(self) -> None:
        """Write foreign records into copies."""
        if self._world.cell.naming in BOTH_WAYS:
            return
        for link in self._world.topology.links:
            cluster = self._world.clusters[link.target]
            for copy in link.copies.values():
                for partition in cluster.topics[copy].partitions if copy in cluster.topics else ():
                    if partition.log_end_offset and self._random.random() < 0.5:
                        self._intrude(partition)
        self._note("foreign")

    def _intrude(self, partition: SimPartition) -> None:
        records = []
        for _ in range(self._random.randint(1, 3)):
            self._intrusions += 1
            name = f"intruder#{self._intrusions}".encode()
            self._world.intruded.add(name)
            records.append(NewRecord(1_000, None, b"nobody copied this", ((NAME_HEADER, name),)))
        partition.append(encode_batch(records))
        partition.commit(partition.log_end_offset)


async def _refuse_to_write(*args: object) -> None:
    raise KafkaError(ErrorCode.network_exception, "the map cannot be written")
