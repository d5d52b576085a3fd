"""The batches of one Produce request, at most one for each partition."""

from __future__ import annotations

from collections.abc import ItemsView

from local_cluster.client.model import TopicPartition

Batch = bytes | bytearray | memoryview


class ProduceBatches:
    """Batches by partition, in the order in which they were added.

    A mapping would replace the first of two batches for a partition without a word. So would Apache
    Kafka: it keeps the last one of a request and acknowledges that one alone.
    """

    __slots__ = ("_batches",)

    def __init__(self, *batches: tuple[TopicPartition, Batch]) -> None:
        """Raises ValueError where two are for the same partition."""
        self._batches: dict[TopicPartition, Batch] = {}
        for at, batch in batches:
            self.add(at, batch)

    def add(self, at: TopicPartition, batch: Batch) -> None:
        """Take in a partition's batch. Raises ValueError where the partition has one already."""
        if at in self._batches:
            raise ValueError(f"a Produce request takes one batch for {at}, this is the second")
        self._batches[at] = batch

    def __len__(self) -> int:
        return len(self._batches)

    def __contains__(self, at: TopicPartition) -> bool:
        return at in self._batches

    def items(self) -> ItemsView[TopicPartition, Batch]:
        """(partition, batch) of each."""
        return self._batches.items()
