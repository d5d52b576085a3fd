"""Estimates the bytes per record of each partition, for the limit in bytes.

The planner does not read records. It fetches a few batches from where the next read begins, and
counts their bytes, compressed, as they are in the log. Later records may be larger or smaller, so a
batch of the stream is only about as large as the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import ClusterMetadata, FetchPosition, TopicPartition
from local_cluster.records.header import HEADER_BYTES, iter_headers, read_header
from local_cluster.wire.constants import READ_COMMITTED

SAMPLE_BYTES: Final = 64 * 1024
"""Bytes to fetch from a partition for one sample."""
SAMPLES_PER_BATCH_MAX: Final = 32
"""Partitions that are sampled before one batch of the stream."""
SAMPLE_LASTS_OFFSETS: Final = 100_000
"""A partition is sampled again after so many offsets."""
UNKNOWN_BYTES_PER_OFFSET: Final = 1_024.0
"""Assumed while no partition has been sampled."""


class SizeEstimates:
    """Bytes per offset of the partitions that were sampled."""

    def __init__(self) -> None:
        self._sampled: dict[TopicPartition, tuple[int, float]] = {}

    async def refresh(
        self,
        client: KafkaClient,
        metadata: ClusterMetadata,
        positions: Mapping[TopicPartition, int],
    ) -> None:
        """Sample partitions at these positions, where the last sample is old. Raises KafkaError."""
        for leader, wanted in _by_leader(metadata, self._outdated(positions)).items():
            answer = await client.fetch(
                leader,
                {at: FetchPosition(positions[at]) for at in wanted},
                wait_ms_max=0,
                bytes_max=SAMPLE_BYTES * len(wanted),
                partition_bytes_max=SAMPLE_BYTES,
                isolation_level=READ_COMMITTED,
            )
            for at in wanted:
                estimate = bytes_per_offset(answer[at].records)
                if estimate is not None:
                    self._sampled[at] = positions[at], estimate

    def of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, float]:
        """Return the estimate of each partition; the mean of the others if it has none."""
        known = [estimate for _, estimate in self._sampled.values()]
        mean = fmean(known) if known else UNKNOWN_BYTES_PER_OFFSET
        return {at: self._sampled.get(at, (0, mean))[1] for at in partitions}

    def _outdated(self, positions: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        never = -SAMPLE_LASTS_OFFSETS
        ages = {
            at: offset - self._sampled.get(at, (never, 0))[0] for at, offset in positions.items()
        }
        old = [at for at, age in ages.items() if age >= SAMPLE_LASTS_OFFSETS]
        return sorted(old, key=lambda at: -ages[at])[:SAMPLES_PER_BATCH_MAX]


def bytes_per_offset(records: memoryview) -> float | None:
    """Return bytes per offset of the batches; of the first one if it is incomplete. Pure."""
    if len(records) < HEADER_BYTES:
        return None
    headers = [header for _, header in iter_headers(records)] or [read_header(records)]
    size_bytes = sum(header.size_bytes for header in headers)
    return size_bytes / max(1, headers[-1].next_offset - headers[0].base_offset)


def _by_leader(
    metadata: ClusterMetadata, partitions: Iterable[TopicPartition]
) -> dict[int, list[TopicPartition]]:
    found: dict[int, list[TopicPartition]] = {}
    for at in partitions:
        partition = metadata.topics[at.topic].partitions.get(at.partition)
        if partition is not None and partition.leader >= 0:
            found.setdefault(partition.leader, []).append(at)
    return found
