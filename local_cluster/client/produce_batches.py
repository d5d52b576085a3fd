"""The batches of one Produce request, at most one for each partition, and their results."""

from __future__ import annotations

from collections.abc import ItemsView, Sequence
from typing import Final

from local_cluster.client.model import ProducedPartition, TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.produce import PartitionProduceResponse

Batch = bytes | bytearray | memoryview

RESULTS_SHOWN_MAX: Final = 5
"""Partitions that an error about a wrong response names."""


class ProduceBatches:
    """Batches by partition, in the order of their addition.

    A dict would silently replace the first of two batches for a partition. So would Apache Kafka:
    it keeps the last one of a request, and acknowledges that one alone.
    """

    __slots__ = ("_batches",)

    def __init__(self, *batches: tuple[TopicPartition, Batch]) -> None:
        """Raises ValueError if two batches are for the same partition."""
        self._batches: dict[TopicPartition, Batch] = {}
        for at, batch in batches:
            self.add(at, batch)

    def add(self, at: TopicPartition, batch: Batch) -> None:
        """Add the batch of a partition. Raises ValueError if the partition has one already."""
        if at in self._batches:
            raise ValueError(f"a Produce request takes one batch for {at}, this is the second")
        self._batches[at] = batch

    def __len__(self) -> int:
        return len(self._batches)

    def __contains__(self, at: TopicPartition) -> bool:
        return at in self._batches

    def items(self) -> ItemsView[TopicPartition, Batch]:
        """Return (partition, batch) of each."""
        return self._batches.items()


def match_results(
    batches: ProduceBatches, results: Sequence[PartitionProduceResponse]
) -> dict[TopicPartition, ProducedPartition]:
    """Return the result of each batch. Raises KafkaError if one has no result, or two."""
    produced = {
        TopicPartition(entry.topic, entry.partition): ProducedPartition(
            ErrorCode(entry.error_code),
            entry.base_offset,
            entry.log_append_time_ms,
            entry.log_start_offset,
            entry.error_message,
        )
        for entry in results
    }
    is_one_each = len(results) == len(produced) == len(batches)
    if not is_one_each or not all(at in batches for at in produced):
        named = ", ".join(map(str, list(produced)[:RESULTS_SHOWN_MAX]))
        raise KafkaError(
            ErrorCode.unknown_server_error,
            f"Produce of {len(batches)} batches has {len(results)} results: {named}",
        )
    return produced
