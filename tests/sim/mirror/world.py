"""Two simulated clusters, a writer for the source, and mirror workers that can be killed."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, Record, decode_batch, encode_batch
from local_cluster.records.header import (
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    pack_header,
    patch_crc,
    patch_max_timestamp,
    read_header,
)
from local_cluster.wire.errors import KafkaError
from mirror_maker.audit.cpu_budget import CpuBudget
from mirror_maker.flow.flow import Flow
from mirror_maker.flow.sender import SenderPool
from mirror_maker.formats import Gap, GapJournal, MapTopic, gaps_topic_name, map_topic_name
from mirror_maker.formats.gaps import GapKind
from mirror_maker.formats.naming import remote_topic
from mirror_maker.formats.verdict_topic import VerdictTopic
from mirror_maker.formats.verdicts import Finding, Tally, Verdict, verdicts_topic_name
from mirror_maker.link.link import LinkWorker
from mirror_maker.link.link_parts import AuditResources, LinkClients, LinkParts
from mirror_maker.metrics.batch_spans import BatchSpans
from mirror_maker.model import FlowState
from mirror_maker.rules.trouble import Trouble
from mirror_maker.settings import Limits, LinkSettings
from tests.sim.kafka_double.client import SimClient
from tests.sim.kafka_double.cluster import SimCluster
from tests.sim.kafka_double.log import SimPartition
from tests.sim.kafka_double.network import Killed, Network
from tests.sim.virtual_time import busy_cpu
from tests.support.compacted_batches import encode_cleaned

KINDS = (
    "plain", "plain", "plain", "commit", "abort", "holes", "horizon", "append_time", "empty",
)  # fmt: skip
"""The kinds of batches of which a source's log is written."""
LINK = "a-b"
TOPIC = "t"
LIMITS = Limits(
    fetch_partition_bytes_max=600,
    fetch_ahead_bytes_min=100,
    partition_pending_bytes_max=2_000,
    produce_request_bytes_max=800,
    map_flush_ms=20,
    discovery_ms=50,
    fetch_wait_ms_max=20,
    back_off_ms_min=1,
    back_off_ms_max=50,
    epoch_quiet_ms=5_000,
    completeness_ms=0,
)


class VirtualClock:
    """The loop's virtual time."""

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1000)

    async def sleep(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000)


@dataclass
class SimLease:
    """A lease that a test can revoke."""

    valid: bool = True

    def is_valid(self) -> bool:
        return self.valid


@dataclass
class SourceWriter:
    """Writes every kind of batch into a source log, and knows which records must be copied."""

    partition: SimPartition
    random: Random
    expected: list[Record] = field(default_factory=list)
    """Copyable records with their source offsets, in order."""
    serial: int = 0
    producer_id: int = 1
    shift_ms: int = 0
    """Added to the times of records."""
    codecs: tuple[int, ...] = (0, 0, 1, 3)
    """One of them is drawn for each batch."""

    def write(self) -> None:
        """Write a random batch, transaction or hole."""
        getattr(self, f"_write_{self.random.choice(KINDS)}")()
        self.partition.commit(self.partition.log_end_offset)

    def _records(self, count: int | None = None) -> list[NewRecord]:
        records = []
        for _ in range(count or self.random.randint(1, 6)):
            self.serial += 1
            records.append(
                NewRecord(
                    1_000 + self.shift_ms + self.random.randint(0, 500),
                    None if self.random.random() < 0.2 else b"k%d" % self.serial,
                    None if self.random.random() < 0.1 else b"v%d" % self.serial,
                    (("n", b"%d" % self.serial),) if self.random.random() < 0.3 else (),
                )
            )
        return records

    def _place(self, records: list[NewRecord], **options: Any) -> int:
        codec = self.random.choice(self.codecs)
        batch = encode_batch(records, codec=codec, **options)
        return self.partition.place(batch, self.partition.log_end_offset)

    def _expect(self, base_offset: int, records: list[NewRecord]) -> None:
        for index, record in enumerate(records):
            self.expected.append(Record(base_offset + index, *record))

    def cut_back(self, offset: int) -> None:
        """Let the source lose everything from an offset on."""
        self.partition.cut_back(offset)
        end = self.partition.log_end_offset
        self.expected = [record for record in self.expected if record.offset < end]

    def write_plain(self, count: int) -> None:
        """Write an ordinary batch."""
        records = self._records(count)
        self._expect(self._place(records), records)
        self.partition.commit(self.partition.log_end_offset)

    def write_aborted(self) -> None:
        """Write an aborted transaction, which is not copied."""
        self._write_abort()
        self.partition.commit(self.partition.log_end_offset)

    def _write_plain(self) -> None:
        records = self._records()
        self._expect(self._place(records), records)

    def _write_commit(self) -> None:
        self._transaction(committed=True)

    def _write_abort(self) -> None:
        self._transaction(committed=False)

    def _transaction(self, *, committed: bool) -> None:
        self.producer_id += 1
        first = self.partition.log_end_offset
        for _ in range(self.random.randint(1, 2)):
            records = self._records()
            base_offset = self._place(
                records,
                attributes=TRANSACTIONAL_BIT,
                producer_id=self.producer_id,
                producer_epoch=0,
            )
            if committed:
                self._expect(base_offset, records)
        marker = NewRecord(1_000, struct.pack(">hh", 0, int(committed)), b"\0" * 6)
        batch = encode_batch(
            [marker],
            attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
            producer_id=self.producer_id,
            producer_epoch=0,
        )
        last = self.partition.place(batch, self.partition.log_end_offset)
        if not committed:
            self.partition.aborted.append((self.producer_id, first, last))

    def _write_holes(self) -> None:
        """Write what compaction leaves: batches with missing records, and unused offsets."""
        records = self._records(6)
        kept = sorted(self.random.sample(range(6), self.random.randint(1, 5)))
        batch = encode_cleaned(records, kept)
        base_offset = self.partition.place(batch, self.partition.log_end_offset)
        for index in kept:
            self.expected.append(Record(base_offset + index, *records[index]))
        self.partition.log_end_offset += self.random.randint(0, 3)

    def _write_horizon(self) -> None:
        """Write what compaction leaves of a batch with tombstones: a delete horizon."""
        records = self._records()
        horizon_ms = self.random.choice([0, 1_200, 10_000_000])
        codec = self.random.choice(self.codecs)
        batch = encode_cleaned(records, horizon_ms=horizon_ms, codec=codec)
        self._expect(self.partition.place(batch, self.partition.log_end_offset), records)

    def _write_append_time(self) -> None:
        records = self._records()
        batch = encode_batch(records, attributes=TIMESTAMP_TYPE_BIT)
        patch_max_timestamp(batch, 0, 5_000 + self.serial)
        patch_crc(batch, 0)
        base_offset = self.partition.place(batch, self.partition.log_end_offset)
        stamped = [record._replace(timestamp_ms=5_000 + self.serial) for record in records]
        self._expect(base_offset, stamped)

    def _write_empty(self) -> None:
        """Write a batch without records: compaction removed all of them."""
        batch = encode_batch(self._records(1))
        header = read_header(batch)._replace(
            records_count=0, batch_length=HEADER_BYTES - LOG_OVERHEAD_BYTES
        )
        empty = bytearray(pack_header(header))
        patch_crc(empty, 0)
        self.partition.place(empty, self.partition.log_end_offset)


class SimWorker:
    """One worker process: the mirror's own parts on simulated clients."""

    def __init__(self, world: MirrorWorld, name: str, step: Callable[[], None]) -> None:
        def client(cluster: SimCluster) -> SimClient:
            return SimClient(cluster, world.network, self._step)

        self._outer_step = step
        self._dead = False
        self.lease = SimLease()
        random = Random(world.random.getrandbits(32))
        settings = LinkSettings(
            **{"name": LINK, "source_alias": "a", "source_bootstrap": "-", **world.link_settings}
        )
        self.clients = LinkClients(client(world.source), client(world.source), client(world.target))
        self.senders = SenderPool(client(world.target), LIMITS)
        parts = LinkParts(
            settings,
            world.limits,
            self.clients,
            worker_id=name,
            lease=self.lease,
            clock=VirtualClock(),
            random=random,
            offer=self.senders.offer,
            audit=AuditResources(client(world.target), CpuBudget(1.0), busy_cpu()),
            tracer=world.spans,
        )
        self.origins = parts.origins
        self.link = LinkWorker(parts, "b", self._on_known_changed)
        self._world = world
        self._assigned = frozenset(world.partitions)
        self.link.assign(self._assigned)
        self._tasks: list[asyncio.Task[None]] = []

    def _step(self) -> None:
        if self._dead:
            raise Killed
        self._outer_step()

    def _on_known_changed(self) -> None:
        """Let the group assign partitions that were added to the world, some time later."""
        added = self.link.known.intersection(self._world.partitions) - self._assigned
        if added:
            self._assigned |= added
            delay_s = self._world.assignment_seconds()
            asyncio.get_running_loop().call_later(delay_s, self._assign)

    def _assign(self) -> None:
        if not self._dead:
            self.link.assign(self._assigned)

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self.senders.run()),
            asyncio.create_task(self.link.run()),
        ]

    async def kill(self) -> None:
        """Kill it like kill -9: it takes no further step, and what it has sent is in flight."""
        self._dead = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Stop it cleanly, as the service does."""
        await self.link.finish()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.kill()

    @property
    def flows(self) -> list[Flow]:
        return list(self.link.flows.values())

    async def until_troubled(self, trouble: Trouble, state: FlowState) -> Flow:
        """Wait until a flow is stopped by this trouble; return it."""
        async with asyncio.timeout(120):
            while True:
                for flow in self.flows:
                    if (flow.trouble, flow.state) == (trouble, state):
                        return flow
                await asyncio.sleep(0.01)

    def failures(self) -> list[str]:
        """Return the reasons of failed flows, and of the link."""
        reasons = [flow.reason or "" for flow in self.flows if flow.state is FlowState.FAILED]
        return reasons + ([self.link.failure] if self.link.failure else [])


class MirrorWorld:
    """Source, target, network, and the checks of what must hold in the end."""

    def __init__(self, seed: int, partitions: int = 2) -> None:
        self.random = Random(seed)
        self.limits = LIMITS
        self.link_settings: dict[str, Any] = {}
        """Settings of later workers."""
        self.assignment_seconds: Callable[[], float] = lambda: 0.0
        """Returns how long the group takes to assign a partition that was added."""
        self.spans: BatchSpans | None = None
        """Spans of later workers."""
        self.network = Network(Random(self.random.getrandbits(32)))
        self.source = SimCluster("source", self.random)
        self.target = SimCluster("target", self.random)
        self.source.create(TOPIC, partitions)
        self.partitions = [TopicPartition(TOPIC, index) for index in range(partitions)]
        self.writers = [self._writer(at) for at in self.partitions]

    def _writer(self, at: TopicPartition) -> SourceWriter:
        return SourceWriter(self.source.partition(at), Random(self.random.getrandbits(32)))

    def add_partition(self, topic: str = TOPIC) -> SourceWriter:
        """Add a partition to a topic of the source, which is created if need be."""
        if topic in self.source.topics:
            at = self.source.add_partition(topic)
        else:
            self.source.create(topic, 1)
            at = TopicPartition(topic, 0)
        self.partitions.append(at)
        self.writers.append(self._writer(at))
        return self.writers[-1]

    def write(self, batches: int) -> None:
        """Append random batches to the source."""
        for _ in range(batches):
            self.random.choice(self.writers).write()

    def write_ends(self) -> None:
        """Write a plain batch to each partition: no log ends in a gap then, and nothing lags."""
        for writer in self.writers:
            writer.write_plain(1)

    async def worker(self, name: str, step: Callable[[], None] = lambda: None) -> SimWorker:
        worker = SimWorker(self, name, step)
        worker.start()
        return worker

    async def settle(
        self, worker: SimWorker, seconds_max: float = 120.0, *, is_audited: bool = True
    ) -> None:
        """Wait until the worker has copied everything, and map and audit confirm it."""
        async with asyncio.timeout(seconds_max):
            while not (self._is_settled(worker) and await self._is_flushed(worker)):
                failures = worker.failures()
                assert not failures, failures
                await asyncio.sleep(0.05)
            if is_audited:
                await self.audited(worker)

    async def audited(self, worker: SimWorker) -> None:
        """Wait until the audit has read everything and published its verdicts."""
        auditor = worker.link.auditor
        assert auditor is not None
        for at, flow in worker.link.flows.items():
            copy = self.target.partition(flow.target)
            while True:
                audit = auditor.audit(at)
                if audit is not None and audit.check.audited_to >= copy.high_watermark:
                    break
                if audit is not None and not self.source.partition(at).batches:
                    break
                await asyncio.sleep(0.5)
        while True:
            try:
                await auditor.read_back()
                await auditor.publish()
                return
            except KafkaError:
                await asyncio.sleep(0.1)

    async def _is_flushed(self, worker: SimWorker) -> bool:
        """Return whether the map is written; a write in flight counts after its acknowledgement."""
        try:
            await worker.link.flush()
        except KafkaError:
            return False
        return self._is_settled(worker)

    def _is_settled(self, worker: SimWorker) -> bool:
        if len(worker.link.flows) != len(self.partitions):
            return False
        for at in self.partitions:
            flow = worker.link.flows[at]
            end = (
                self.source.partition(at).batches[-1][0].next_offset
                if (self.source.partition(at).batches)
                else 0
            )
            if flow.replicator is None or flow.replicator.source_next < end:
                return False
            if flow.replicator.block.is_dirty:
                return False
        return True

    # -- what must hold -------------------------------------------------------------------------

    def copies(self, at: TopicPartition) -> list[Record]:
        """Return the target's committed records."""
        partition = self.target.partition(TopicPartition(remote_topic("a", at.topic), at.partition))
        return list(_records(partition))

    def gaps(self, at: TopicPartition) -> list[Gap]:
        """Return what the journal says was not copied."""
        return self.entries(at, GapKind.LOST)

    def entries(self, at: TopicPartition, kind: GapKind) -> list[Gap]:
        """Return the entries of a kind in the journal."""
        journal = GapJournal()
        name = gaps_topic_name(LINK)
        if name in self.target.topics:
            for record in _records(self.target.topics[name].partitions[0]):
                journal.replay(record.key, record.value)
        return [
            gap
            for gap in journal.all_entries()
            if (gap.flow.source_topic, gap.flow.partition, gap.kind) == (*at, kind)
        ]

    def expected(self, at: TopicPartition) -> list[Record]:
        """Return what must be copied: every copyable record, except those lost by the journal."""
        ranges = [(gap.source_from, gap.source_to or gap.source_from) for gap in self.gaps(at)]
        return [
            record
            for record in self.writers[self.partitions.index(at)].expected
            if not any(start <= record.offset < end for start, end in ranges)
        ]

    def check_everything(self) -> None:
        """Check that everything is copied, and that map and audit confirm it."""
        self.check_copies()
        self.check_map(complete=True)

    def check_copies(self) -> None:
        """Check that every record is on the target exactly once, in order, unchanged."""
        for at in self.partitions:
            copied = [record[1:] for record in self.copies(at)]
            assert copied == [record[1:] for record in self.expected(at)], at

    def check_prefix(self) -> None:
        """Check that the target holds a prefix of what must be copied; true at any time."""
        for at in self.partitions:
            if self.target.has(at._replace(topic=remote_topic("a", at.topic))):
                copied = [record[1:] for record in self.copies(at)]
                assert copied == [record[1:] for record in self.expected(at)][: len(copied)], at

    def check_map(self, *, complete: bool) -> None:
        """Check that the published map is true, and in the end complete."""
        topic = read_map_topic(self.target)
        for at in self.partitions:
            expected = self.expected(at)
            flow = topic.latest_flow(at.topic, at.partition)
            if flow is None:
                assert not complete
                continue
            offset_map = topic.offset_map(flow)
            assert offset_map is not None
            place = {
                record.offset: copy.offset
                for record, copy in zip(expected, self.copies(at), strict=False)
            }
            for run in offset_map.runs():
                for index in range(run.records_count):
                    assert place.get(run.source_offset + index) == run.target_offset + index, run
            mapped = sum(run.records_count for run in offset_map.runs())
            known = sum(r.offset < offset_map.source_next for r in expected)
            assert mapped == known, (at, mapped, known)
            if complete:
                assert mapped == len(expected)
        if complete:
            self.check_audit()

    def check_audit(self) -> None:
        """Check that the published audit calls every record complete."""
        for at in self.partitions:
            expected = self.expected(at)
            verdicts = self.verdicts(at)
            assert verdicts.keys() <= {Verdict.COMPLETE}, (at, verdicts, self.findings(at))
            if expected:
                complete = verdicts[Verdict.COMPLETE]
                assert complete.records_count == len(expected), (at, complete)
                assert complete.source_from == expected[0].offset
                assert complete.source_to == expected[-1].offset + 1

    def findings(self, at: TopicPartition) -> list[Finding]:
        """Return the published findings about a partition."""
        flow = read_map_topic(self.target).latest_flow(at.topic, at.partition)
        assert flow is not None
        return list(read_verdicts_topic(self.target).flow(flow).findings.values())

    def verdicts(self, at: TopicPartition) -> dict[Verdict, Tally]:
        """Return the published verdicts about a partition, over all times."""
        flow = read_map_topic(self.target).latest_flow(at.topic, at.partition)
        assert flow is not None
        found: dict[Verdict, Tally] = {}
        for bucket in read_verdicts_topic(self.target).flow(flow).buckets().values():
            for verdict, tally in bucket.items():
                found[verdict] = found[verdict].plus(tally) if verdict in found else tally
        return found


def read_map_topic(target: SimCluster) -> MapTopic:
    """Return the link's map topic, replayed."""
    topic = MapTopic()
    name = map_topic_name(LINK)
    if name in target.topics:
        for record in _records(target.topics[name].partitions[0]):
            topic.replay(record.key, record.value)
    return topic


def read_verdicts_topic(target: SimCluster) -> VerdictTopic:
    """Return the link's verdicts topic, replayed."""
    topic = VerdictTopic()
    name = verdicts_topic_name(LINK)
    if name in target.topics:
        for record in _records(target.topics[name].partitions[0]):
            topic.replay(record.key, record.value)
    return topic


def _records(partition: SimPartition) -> Iterator[Record]:
    for header, batch in partition.batches:
        if header.next_offset <= partition.high_watermark and not header.is_control:
            yield from decode_batch(batch, 0, header)
