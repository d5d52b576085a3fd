"""Clusters, histories and worker processes of one seed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Final

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats.receipts import receipts_topic_name
from mirror_maker.rules.trouble import Policies
from mirror_maker.settings import Limits, LinkSettings
from tests.sim.cluster.names import Anomaly
from tests.sim.kafka_double.cluster import SimCluster
from tests.sim.kafka_double.log import SimPartition
from tests.sim.kafka_double.network import Network
from tests.sim.mirror.world import LIMITS
from tests.sim.mirror_product.cells import Cell
from tests.sim.mirror_product.process import MirrorProcess
from tests.sim.mirror_product.topology import LinkPlan, topology_of
from tests.sim.mirror_product.writing import KINDS, History, NamingWriter

POLICIES: Final = Policies(
    out_of_range="skip", truncated="skip", recreated="skip", foreign="skip", corrupt="skip"
)
FLOWS: Final = {"few": (2, 5), "many": (12, 30), "crowd": (60, 160)}
"""Least and largest number of flows of all links by `Cell.flows`; a topic has at least one."""
WORKERS_MAX: Final = 3
"""Workers of one target that share its partitions."""
SETTLE_SECONDS_MAX: Final = 400.0
GROWTH_MAX: Final = 10
"""Largest ratio of the offsets in all logs to the records written."""
Step = Callable[[], None]


class ProductWorld:
    """The world of a cell and a seed: clusters, histories, workers."""

    def __init__(self, cell: Cell, seed: int) -> None:
        self.cell = cell
        self.random = Random(seed)
        self.network = Network(Random(self.random.getrandbits(32)))
        self.topology = topology_of(cell.naming, self.random)
        self.clusters = {name: SimCluster(name, self.random) for name in self.topology.clusters}
        self.limits = self._limits()
        self.histories: list[History] = []
        """Every partition of every incarnation, in order of creation."""
        self.intruded: set[bytes] = set()
        """Names of foreign records in copies."""
        self.processes: list[MirrorProcess] = []
        self.retired: list[MirrorProcess] = []
        """Workers that were replaced while they kept running."""
        self._workers = {
            target: self.random.randint(2, WORKERS_MAX) for target in self.topology.targets
        }
        self._names = 0
        for cluster, topics in self.topology.written.items():
            for topic in topics:
                self.create(cluster, topic, self._partitions())

    def _partitions(self) -> int:
        copies = sum(len(link.copies) for link in self.topology.links)
        return max(1, self.random.randint(*FLOWS[self.cell.flows]) // copies)

    def _limits(self) -> Limits:
        bytes_max = self.random.choice((600, 1_500))
        return replace(
            LIMITS,
            fetch_partition_bytes_max=bytes_max,
            partition_pending_bytes_max=self.random.choice((2_000, 4_000)),
            produce_request_bytes_max=self.random.choice((800, 3_000, 20_000)),
            map_flush_ms=self.random.choice((20, 20, 200)),
        )

    # -- sources --------------------------------------------------------------------------------

    def create(self, cluster: str, topic: str, partitions: int) -> None:
        """Create a topic that clients write."""
        configs = {}
        if self.cell.state in ("compacted", "cleaned"):
            configs["cleanup.policy"] = "compact"
        self.clusters[cluster].create(topic, partitions, configs)
        for partition in range(partitions):
            self.note_partition(cluster, topic, partition)

    def note_partition(self, cluster: str, topic: str, partition: int) -> None:
        """Add a writer for a partition."""
        created = self.clusters[cluster].topics[topic]
        number = sum(
            (each.cluster, each.topic, each.partition) == (cluster, topic, partition)
            for each in self.histories
        )
        is_crowd = self.cell.flows != "few"
        writer = NamingWriter(
            created.partitions[partition],
            Random(self.random.getrandbits(32)),
            name=f"{cluster}/{topic}/{number}/{partition}",
            kinds=KINDS.get(self.cell.state, KINDS["any"]),
            records_max=2 if is_crowd else 6,
        )
        self.histories.append(History(cluster, topic, partition, created.topic_id, writer))

    @property
    def living(self) -> list[History]:
        """The existing partitions."""
        return [history for history in self.histories if not history.is_deleted]

    def write(self, batches: int) -> None:
        """Append random batches to random partitions."""
        for _ in range(batches if self.living else 0):
            self.random.choice(self.living).writer.write()

    def write_ends(self) -> None:
        """Write a plain batch to each partition, so that no log ends in a gap."""
        for history in self.living:
            history.writer.write_plain(1)

    # -- workers --------------------------------------------------------------------------------

    def partitions_of(self, link: LinkPlan) -> list[TopicPartition]:
        """Return the existing partitions of a link's topics at its source."""
        topics = self.clusters[link.source].topics
        return [
            TopicPartition(name, partition)
            for name in link.copies
            if name in topics
            for partition in range(len(topics[name].partitions))
        ]

    def links_into(self, target: str) -> list[LinkPlan]:
        return [link for link in self.topology.links if link.target == target]

    def groups(self) -> Iterator[tuple[str, list[LinkPlan]]]:
        """Yield the target and links of each group of workers."""
        for target in self.topology.targets:
            links = self.links_into(target)
            if self.cell.sharing == "own":
                yield from ((target, [link]) for link in links)
            else:
                yield target, links

    def start(self) -> None:
        """Start every worker of every group."""
        for target, links in self.groups():
            count = self._workers[target] if self.cell.sharing == "several" else 1
            for _ in range(count):
                self.start_process(target, links)
        self.assign_all()

    def start_process(
        self, target: str, links: list[LinkPlan], step: Step = lambda: None
    ) -> MirrorProcess:
        """Start another worker of these links; it copies nothing before `assign_all`."""
        self._names += 1
        process = MirrorProcess(
            f"w{self._names}",
            self.clusters[target],
            [
                (LinkSettings(**link.settings, on=POLICIES), self.clusters[link.source])
                for link in links
            ],
            self.network,
            self.limits,
            Random(self.random.getrandbits(32)),
            step,
        )
        self.processes.append(process)
        process.start()
        return process

    def assign_all(self) -> None:
        """Assign the existing partitions to the workers, as their group does."""
        for link in self.topology.links:
            workers = [each for each in self.processes if link.name in each.links]
            partitions = self.partitions_of(link)
            for index, worker in enumerate(workers):
                worker.assign(link.name, partitions[index :: len(workers)])

    def replace_process(self, process: MirrorProcess, step: Step = lambda: None) -> MirrorProcess:
        """Replace a worker that is dead, paused or cut off."""
        links = [link for link in self.topology.links if link.name in process.links]
        self.processes.remove(process)
        return self.start_process(links[0].target, links, step)

    # -- the end --------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait until the workers have copied, mapped, audited and published everything."""
        try:
            async with asyncio.timeout(SETTLE_SECONDS_MAX):
                while self._waiting_for() or not await self._flush():
                    self.assign_all()
                    await asyncio.sleep(0.1)
                while self._unaudited() or not await self._publish():
                    await asyncio.sleep(0.5)
        except TimeoutError:
            raise Anomaly(
                f"not settled: {(self._waiting_for() or self._unaudited())[:5]} "
                f"{self._failures()[:3]}"
            ) from None

    def _failures(self) -> list[str]:
        return [failure for process in self.processes for failure in process.failures()]

    def _waiting_for(self) -> list[str]:
        failures = self._failures()
        if failures:
            raise Anomaly(f"a worker gave up: {failures[:3]}")
        self._check_growth()
        missing = []
        for link in self.topology.links:
            flows = {
                at: flow
                for process in self.processes
                for name, at, flow in process.flows()
                if name == link.name
            }
            for at in self.partitions_of(link):
                flow = flows.get(at)
                end = _end_of(self.clusters[link.source].partition(at))
                if flow is None or flow.replicator is None:
                    reason = None if flow is None else flow.reason
                    missing.append(f"{link.name} {at} does not run: {reason}")
                elif flow.replicator.source_next < end or flow.replicator.block.is_dirty:
                    missing.append(f"{link.name} {at} is at {flow.replicator.source_next} of {end}")
        return missing

    def _check_growth(self) -> None:
        """Raise Anomaly if records circulate: the world would never settle."""
        written = sum(history.writer.serial for history in self.histories)
        ends = sum(
            log.log_end_offset
            for cluster in self.clusters.values()
            for topic in cluster.topics.values()
            if not topic.name.endswith(".internal")
            for log in topic.partitions
        )
        if ends > GROWTH_MAX * (written + GROWTH_MAX) * len(self.clusters):
            raise Anomaly(f"{written} records were written, and logs have {ends} offsets")

    async def _flush(self) -> bool:
        try:
            for process in self.processes:
                for link in process.links.values():
                    await link.flush()
        except KafkaError:
            return False
        return not self._waiting_for()

    def _unaudited(self) -> list[str]:
        waiting = []
        for process in self.processes:
            for name, at, flow in process.flows():
                link = self.link(name)
                cluster = self.clusters[link.target]
                auditor = process.links[name].auditor
                state = process.links[name].map_store.state
                audit = None if auditor is None else auditor.audit(at)
                receipts = cluster.topics[receipts_topic_name(name)].partitions[0]
                if audit is None or audit.flow != state.latest_flow(*at):
                    waiting.append(f"{name} {at}: no audit of the present flow")
                elif audit.receipts_next < receipts.log_end_offset:
                    waiting.append(f"{name} {at}: receipts are not read")
                elif audit.check.waiting_receipts:
                    waiting.append(f"{name} {at}: receipts wait")
                elif not link.is_shared:
                    end = cluster.partition(flow.target).high_watermark
                    begun = audit.check.expected_to > 0 or audit.check.seen_to > 0
                    if begun and audit.check.audited_to < end:
                        waiting.append(f"{name} {at}: audited to {audit.check.audited_to} of {end}")
        return waiting

    def link(self, name: str) -> LinkPlan:
        return next(link for link in self.topology.links if link.name == name)

    async def _publish(self) -> bool:
        try:
            for process in self.processes:
                for link in process.links.values():
                    assert link.auditor is not None
                    await link.auditor.read_back()  # or it is due after this world's end
                    await link.auditor.publish()
        except KafkaError:
            return False
        return True


def _end_of(partition: SimPartition) -> int:
    return partition.batches[-1][0].next_offset if partition.batches else 0
