"""The partitions of both clusters of a link, as a proof reads them. Shell."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from local_cluster.client.model import FetchedPartition, ListedOffset, TopicPartition
from local_cluster.wire.constants import READ_COMMITTED
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.log_offsets import LogOffsets
from mirror_maker.clusters.origins import Origins
from mirror_maker.clusters.partition_log import (
    LeaderOf,
    PartitionLog,
    TargetLog,
)
from mirror_maker.clusters.topic_directory import Directory
from mirror_maker.copy.batch_selection import Selection, select_batches
from mirror_maker.ports import DataSink, LogReader
from mirror_maker.rules.gap_ranges import NO_GAPS, GapRanges
from mirror_maker.rules.record_rules import RecordRules, build_rules
from mirror_maker.settings import Limits, LinkSettings


class SourceLog(PartitionLog):
    """A source partition with the link's rules about what of it is copied."""

    def __init__(
        self,
        at: TopicPartition,
        reader: LogReader,
        offsets: LogOffsets,
        leader_of: LeaderOf,
        *,
        origins: Origins | None,
        rules: RecordRules | None,
        fetch_bytes_max: int | None,
    ) -> None:
        """`origins` is set if only records born at the source are copied. `fetch_bytes_max` limits
        fetches of a link with rules; see `Limits.rules_fetch_bytes_max`."""
        super().__init__(at, reader, offsets, leader_of)
        self.rules = rules
        self._origins = origins
        self._fetch_bytes_max = fetch_bytes_max

    async def fetch_committed(self, offset: int, bytes_max: int) -> FetchedPartition:
        """Fetch committed records without waiting. The caller checks `error` of the answer."""
        if self._fetch_bytes_max is not None:
            bytes_max = min(bytes_max, self._fetch_bytes_max)
        return await self.fetch(offset, bytes_max=bytes_max, isolation_level=READ_COMMITTED)

    async def select(
        self, fetched: FetchedPartition, position: int, gaps: GapRanges = NO_GAPS
    ) -> Selection:
        """Return what of a fetch response the link copies. Raises KafkaError, LinkFailedError."""
        if self._origins is not None:
            await self._origins.learn([fetched.records])
        return select_batches(
            fetched.records,
            position,
            fetched.aborted_transactions,
            frozenset() if self._origins is None else self._origins.foreign_ids,
            gaps=gaps,
            rules=self.rules,
        )

    async def has_topic_id(self, topic_id: UUID) -> bool:
        """Return whether the leader still knows the topic by this id. Raises KafkaError."""
        topic = self.at.topic
        found = (await self._reader.topic_ids(self.leader(), [topic])).get(topic)
        if found is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, str(self.at))
        return found == topic_id


class LinkLogs:
    """The partitions of both clusters of one link."""

    def __init__(
        self,
        source: LogReader,
        sink: DataSink,
        directory: Directory,
        settings: LinkSettings,
        limits: Limits,
        origins: Origins | None,
    ) -> None:
        self._source = source
        self._sink = sink
        self._directory = directory
        self._settings = settings
        self._origins = origins
        self._rules = build_rules(settings.filter, settings.transform)
        self.fetch_bytes_max = None if self._rules is None else limits.rules_fetch_bytes_max
        """The limit of a fetch from the source; None without rules for records."""
        self._source_offsets = LogOffsets(source, directory.source_leader)
        self.sink_offsets = LogOffsets(sink, directory.target_leader)

    def source(self, at: TopicPartition) -> SourceLog:
        is_probe = at.topic == self._settings.probe_topic
        return SourceLog(
            at,
            self._source,
            self._source_offsets,
            self._directory.source_leader,
            origins=self._origins,
            rules=None if is_probe else self._rules,
            fetch_bytes_max=self.fetch_bytes_max,
        )

    async def list_source_offsets(
        self, leader: int, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        """Ask a leader at the source, in one request. Raises KafkaError."""
        return await self._source.list_offsets_of(leader, timestamps)

    def target(self, at: TopicPartition) -> TargetLog:
        return TargetLog(at, self._sink, self.sink_offsets, self._directory.target_leader)
