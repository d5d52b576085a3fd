"""MirrorMaker 2's own topics, written for the tools that read them.

Offset syncs of acknowledged batches, checkpoints of groups and heartbeats into both clusters are
what `MirrorClient` and `RemoteClusterUtils` need. No part of the mirror depends on them.

MirrorMaker 2 runs a heartbeat connector for every ordered pair of clusters. For a flow A->B, both
clusters have a `heartbeats` topic, and A's is copied to B as `A.heartbeats`. A link does the same
for its pair.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.client.produce_batches import ProduceBatches
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats.mm2 import (
    HEARTBEATS_TOPIC,
    Checkpoint,
    Heartbeat,
    checkpoints_topic,
    encode_checkpoint,
    encode_heartbeat,
    encode_offset_sync,
    offset_syncs_topic,
)
from mirror_maker.group_sync.position_rules import SyncedPosition
from mirror_maker.link.link import LinkWorker
from mirror_maker.periodic import PeriodicTask, pause_of

RECORDS_PER_BATCH_MAX: Final = 5_000
_TOLERATED: Final = frozenset(
    {
        ErrorCode.topic_already_exists,
        ErrorCode.unsupported_version,
        ErrorCode.topic_authorization_failed,
        ErrorCode.cluster_authorization_failed,
    }
)
"""Refusals after which the topic is assumed to exist, as MirrorMaker 2 does."""

Pair = tuple[bytes, bytes]

log = logging.getLogger(__name__)


class Mm2Topics:
    """The topics of one link, written by one worker; `run` until cancelled."""

    def __init__(
        self, link: LinkWorker, source: KafkaClient, sink: KafkaClient, target_alias: str
    ) -> None:
        settings = link.settings
        self._link = link
        self._source_alias = settings.source_alias
        self._target_alias = target_alias
        self._source = CompactedTopicWriter(source, settings.replication_factor)
        self._sink = CompactedTopicWriter(sink, settings.replication_factor)
        if settings.mm2_topics == "source":
            self._syncs = (self._source, offset_syncs_topic(target_alias))
        else:
            self._syncs = (self._sink, offset_syncs_topic(settings.source_alias))
        self._moved = link.watch()
        self._checkpoints: dict[bool, dict[str, dict[TopicPartition, tuple[int, int]]]] = {
            are_mixed: {} for are_mixed in (False, True)
        }
        """The last written offsets, of existing groups and partitions that this worker copies."""
        limits = link.limits
        self._rounds = [
            PeriodicTask(
                work,
                link=link.name,
                what_failed=f"MM2 {what}",
                pause=pause_of(link.clock, pause_ms),
                backoff=link.new_backoff(),
            )
            for work, what, pause_ms in (
                (self.write_offset_syncs, "offset syncs", limits.map_flush_ms),
                (self.write_heartbeats, "heartbeats", limits.heartbeat_topic_ms),
            )
        ]

    async def run(self) -> None:
        """Write offset syncs and heartbeats in separate rounds, so neither waits for the other."""
        async with asyncio.TaskGroup() as tasks:
            for rounds in self._rounds:
                tasks.create_task(rounds.run())

    async def write_offset_syncs(self) -> None:
        """Write the syncs since the last round. A KafkaError keeps them for the next one."""
        topics, name = self._syncs
        # Later moves belong to the next round, or this one would never end.
        for at in frozenset(self._moved):
            self._moved.discard(at)
            flow = self._link.flows.get(at)
            queue = flow.replicator.syncs if flow is not None and flow.replicator else None
            syncs = queue.take() if queue is not None else []
            if queue is None or not syncs:
                continue
            try:
                await topics.append(name, map(encode_offset_sync, syncs), self._now_ms())
            except KafkaError:
                queue.put_back(syncs)
                self._moved.add(at)
                raise

    async def checkpoint(
        self,
        groups: Mapping[str, Sequence[SyncedPosition]],
        present: Collection[str],
        *,
        are_mixed: bool = False,
    ) -> list[tuple[str, TopicPartition]]:
        """Write a checkpoint for each position that moved; return (group, target partition) of
        each.

        `groups` are those that may have moved, each with all of its positions of the kind that
        `are_mixed` says. `present` are all existing groups. Checkpoints of other groups stay in the
        topic, because MirrorMaker 2's readers fail on a tombstone (Checkpoint.deserializeRecord).
        Raises KafkaError.
        """
        written = self._checkpoints[are_mixed]
        for gone in written.keys() - present:
            del written[gone]
        there: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
        moved: list[tuple[str, TopicPartition]] = []
        records = []
        for group_id, positions in groups.items():
            before, there[group_id] = written.get(group_id, {}), {}
            for position in positions:
                if position.target_offset is None:
                    continue
                offsets = (position.source_offset, position.target_offset)
                there[group_id][position.target] = offsets
                if before.get(position.target) != offsets:
                    checkpoint = Checkpoint(group_id, *position.target, *offsets, position.metadata)
                    records.append(encode_checkpoint(checkpoint))
                    moved.append((group_id, position.target))
        name = checkpoints_topic(self._source_alias)
        await self._sink.append(name, records, self._now_ms())
        written.update(there)
        return moved

    async def write_heartbeats(self) -> None:
        """Write one heartbeat into each cluster, from one worker of the link. Raises KafkaError."""
        if not self._link.is_first_worker:
            return
        now_ms = self._now_ms()
        forth = Heartbeat(self._source_alias, self._target_alias, now_ms)
        back = Heartbeat(self._target_alias, self._source_alias, now_ms)
        await self._sink.append(HEARTBEATS_TOPIC, [encode_heartbeat(forth)], now_ms)
        await self._source.append(HEARTBEATS_TOPIC, [encode_heartbeat(back)], now_ms)

    def _now_ms(self) -> int:
        return self._link.clock.now_ms()


class CompactedTopicWriter:
    """A writer of compacted topics of one partition, created at the first write."""

    def __init__(self, client: KafkaClient, replication_factor: int) -> None:
        self._client = client
        self._replication_factor = replication_factor
        self._leaders: dict[str, int] = {}

    async def append(self, name: str, pairs: Iterable[Pair], now_ms: int) -> None:
        """Write records to partition 0; return when they are acknowledged. Raises KafkaError.

        The topic is created even without records, because its readers look it up.
        """
        if name not in self._leaders:
            await self._ensure(name)
        at = TopicPartition(name, 0)
        records = [NewRecord(now_ms, key, value) for key, value in pairs]
        try:
            for start in range(0, len(records), RECORDS_PER_BATCH_MAX):
                batch = encode_batch(records[start : start + RECORDS_PER_BATCH_MAX])
                batches = ProduceBatches((at, batch))
                answer = (await self._client.produce(self._leaders[name], batches))[at]
                if answer.error:
                    raise KafkaError(answer.error, f"{at}: {answer.error_message or ''}")
        except KafkaError:
            self._leaders.pop(name, None)
            raise

    async def _ensure(self, name: str) -> None:
        topic = (await self._client.metadata([name])).topics.get(name)
        if topic is None or topic.error == ErrorCode.unknown_topic_or_partition:
            new = NewTopic(
                name=name,
                partitions=1,
                replication_factor=self._replication_factor,
                configs={"cleanup.policy": "compact"},
            )
            error = (await self._client.create_topics([new])).get(name)
            if error is not None and error.code not in _TOLERATED:
                raise error
            topic = (await self._client.metadata([name])).topics[name]
        if topic.error:
            raise KafkaError(topic.error, name)
        if 0 not in topic.partitions or topic.partitions[0].leader < 0:
            raise KafkaError(ErrorCode.leader_not_available, name)
        self._leaders[name] = topic.partitions[0].leader
