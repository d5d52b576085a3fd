"""The evidence of a judge: writers' histories, the logs of the doubles, published topics."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import Record, decode_batch
from mirror_maker.formats import FlowKey, Gap, GapJournal, MapTopic, gaps_topic_name, map_topic_name
from mirror_maker.formats.gaps import GapKind
from mirror_maker.formats.verdict_topic import FlowVerdicts, VerdictTopic
from mirror_maker.formats.verdicts import verdicts_topic_name
from tests.sim.kafka_double.cluster import SimCluster
from tests.sim.kafka_double.log import SimPartition
from tests.sim.mirror_product.topology import LinkPlan
from tests.sim.mirror_product.world import ProductWorld
from tests.sim.mirror_product.writing import History, name_of


@dataclass(frozen=True)
class SourceLog:
    """One incarnation of a source partition: acknowledged records, and those that are gone."""

    at: TopicPartition
    topic_id: UUID
    records: Mapping[int, Record]
    """Every copyable record that was ever there, by offset, ascending."""
    gone: frozenset[int] = frozenset()
    """Offsets of the records that the source no longer has."""
    compacted: frozenset[int] = frozenset()
    """Offsets of the records that compaction took."""
    end: int = 0
    """The log end offset."""
    is_deleted: bool = False

    def offsets_by_name(self) -> dict[bytes, int]:
        return {name: at for at, record in self.records.items() if (name := name_of(record))}


@dataclass(frozen=True)
class Copies:
    """The copies of one incarnation of a source partition, as they lie on the target."""

    source: SourceLog
    places: tuple[tuple[int, int], ...]
    """(source offset, target offset), in the order of the target."""
    by_source: Mapping[int, int] = field(default_factory=dict)

    def first_from(self, source_offset: int) -> tuple[int, int] | None:
        """Return the first copied record at or after a source offset."""
        index = bisect_left(self.places, (source_offset, -1))
        return self.places[index] if index < len(self.places) else None

    def last_before(self, source_offset: int) -> tuple[int, int] | None:
        """Return the last copied record before a source offset."""
        index = bisect_left(self.places, (source_offset, -1)) - 1
        return self.places[index] if index >= 0 else None


@dataclass(frozen=True)
class LinkEvidence:
    """One link: its sources, the logs that it writes to, its published topics."""

    link: LinkPlan
    target: SimCluster
    sources: Mapping[TopicPartition, tuple[SourceLog, ...]]
    """Every incarnation of every source partition, in order."""
    target_logs: Mapping[TopicPartition, Mapping[int, Record]]
    """Partition of a copy -> its records by offset."""
    map_topic: MapTopic
    journal: GapJournal
    verdicts: VerdictTopic

    def copy_of(self, source: TopicPartition) -> TopicPartition:
        return TopicPartition(self.link.copies[source.topic], source.partition)

    def flow(self, log: SourceLog) -> FlowKey | None:
        """Return the flow of an incarnation, if it was ever opened."""
        found = [
            flow
            for flow in self.map_topic.every_flow()
            if (flow.source_topic, flow.partition) == log.at
            and flow.source_topic_id == log.topic_id
        ]
        assert len(found) <= 1, found
        return found[0] if found else None

    def entries(self, log: SourceLog, kind: GapKind) -> list[Gap]:
        """Return the journal's entries of a kind about an incarnation."""
        entries = self.journal.partition_entries(*log.at)
        return [
            each
            for each in entries
            if each.flow.source_topic_id == log.topic_id and each.kind is kind
        ]

    def verdicts_of(self, flow: FlowKey) -> FlowVerdicts:
        return self.verdicts.flow(flow)

    def every_log(self) -> Iterator[SourceLog]:
        for incarnations in self.sources.values():
            yield from incarnations


@dataclass(frozen=True)
class Evidence:
    """Everything to judge."""

    links: tuple[LinkEvidence, ...]
    native: Mapping[str, Mapping[TopicPartition, frozenset[bytes]]]
    """Cluster -> partition -> names of records by clients, also in aborted transactions."""
    intruded: frozenset[bytes]
    """Names of records that clients wrote into copies."""


def committed(log: SimPartition) -> dict[int, Record]:
    """Return every committed record except markers, by offset.

    Records below the log start are included: a double keeps what retention hides.
    """
    return {
        record.offset: record
        for header, batch in log.batches
        if header.next_offset <= log.high_watermark and not header.is_control
        for record in decode_batch(batch, 0, header)
    }


def gather(world: ProductWorld) -> Evidence:
    """Collect the evidence of a world."""
    native: dict[str, dict[TopicPartition, frozenset[bytes]]] = {}
    for history in world.histories:
        at = TopicPartition(history.topic, history.partition)
        native.setdefault(history.cluster, {})[at] = frozenset(
            name for each in committed(history.log).values() if (name := name_of(each))
        )
    return Evidence(
        tuple(_gather_link(world, link) for link in world.topology.links),
        native,
        frozenset(world.intruded),
    )


def _gather_link(world: ProductWorld, link: LinkPlan) -> LinkEvidence:
    target = world.clusters[link.target]
    sources: dict[TopicPartition, tuple[SourceLog, ...]] = {}
    for history in world.histories:
        if history.cluster == link.source and history.topic in link.copies:
            at = TopicPartition(history.topic, history.partition)
            sources[at] = (*sources.get(at, ()), _log_of(history))
    written = {history.topic for history in world.histories if history.cluster == link.source}
    for topic in link.copies.keys() - written:
        # A topic that another mirror writes is a source too: its log is all there is.
        created = world.clusters[link.source].topics.get(topic)
        for index, log in enumerate(created.partitions if created else ()):
            at = TopicPartition(topic, index)
            assert created is not None
            sources[at] = (SourceLog(at, created.topic_id, committed(log), end=log.log_end_offset),)
    map_topic, journal, verdicts = MapTopic(), GapJournal(), VerdictTopic()
    for name, replay in (
        (map_topic_name(link.name), map_topic.replay),
        (gaps_topic_name(link.name), journal.replay),
        (verdicts_topic_name(link.name), verdicts.replay),
    ):
        if name in target.topics:
            for record in committed(target.topics[name].partitions[0]).values():
                replay(record.key, record.value)
    target_logs = {
        TopicPartition(copy, index): committed(log)
        for copy in link.copies.values()
        if copy in target.topics
        for index, log in enumerate(target.topics[copy].partitions)
    }
    return LinkEvidence(link, target, sources, target_logs, map_topic, journal, verdicts)


def _log_of(history: History) -> SourceLog:
    records = {record.offset: record for record in history.records}
    return SourceLog(
        TopicPartition(history.topic, history.partition),
        history.topic_id,
        records,
        frozenset(offset for offset in records if history.is_gone(offset)),
        frozenset(history.compacted),
        history.log.log_end_offset,
        history.is_deleted,
    )
