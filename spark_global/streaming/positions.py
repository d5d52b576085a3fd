"""The positions of a stream: one offset per partition of the aggregate. Pure.

Spark keeps them as JSON in `offsets/N` of the checkpoint:

    {"version": 1, "cluster_id": "...", "topics": {"jfk.flights": {"topic_id": "...",
     "offsets": {"0": 120, "1": 118}}}}

A partition into which links merge may also be in `passed` of its topic: below that offset, a record
that no map has is not waited for any more.

An offset is the first one that the stream has not read. A partition enters the positions at the
offset where reading begins, and its records come from the next batch on. So both ends of each range
are in the checkpoint before its first record is read. A batch that runs again reads the same.

Spark calls the source for its first position again until batch 0 is done, so that position is the
empty object, whatever the options say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from local_cluster.client.model import TopicPartition

VERSION: Final = 1
DATACENTERS: Final = "datacenters"
"""In reported ends only: the datacenter of each topic."""
GROUP: Final = "group"
"""In reported ends only: the consumer group of the query."""
COMPLETE: Final = "complete"
"""With option `carry_completeness` only: until when the positions are complete."""
LINKS: Final = "links"
"""In `COMPLETE`, of a datacenter: the links that it is about."""
FORMERLY: Final = "formerly"
"""In `COMPLETE`, of a datacenter that had other names before: the names."""
PASSED: Final = "passed"
"""Of a topic: offsets below which no map is waited for, by partition."""
NOTHING_JOINED: Final[Mapping[str, Any]] = {}
"""The position before the first batch: no partition has entered yet."""


class CheckpointError(ValueError):
    """The positions of a checkpoint do not belong to what is read."""


class TopicGoneError(CheckpointError):
    """A topic of the checkpoint is not in the cluster's metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPositions:
    """The next offset to read of every partition that the stream has joined."""

    cluster_id: str = ""
    """Cluster of the offsets; empty if the cluster has no id."""
    topic_ids: Mapping[str, str]
    """Topic id by topic; empty if the cluster has no topic ids."""
    offsets: Mapping[TopicPartition, int]
    passed: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Below these offsets no map is waited for."""

    def encode(self) -> dict[str, Any]:
        """Return the JSON object of the checkpoint; equal positions give equal text."""
        topics: dict[str, Any] = {
            name: {"topic_id": topic_id, "offsets": {}}
            for name, topic_id in sorted(self.topic_ids.items())
        }
        for at, offset in sorted(self.offsets.items()):
            topics[at.topic]["offsets"][str(at.partition)] = offset
        for at, offset in sorted(self.passed.items()):
            topics[at.topic].setdefault(PASSED, {})[str(at.partition)] = offset
        return {"version": VERSION, "cluster_id": self.cluster_id, "topics": topics}

    @classmethod
    def decode(cls, document: Mapping[str, Any]) -> Self:
        """Read a JSON object of the checkpoint. Raises CheckpointError."""
        if not document:
            return cls(topic_ids={}, offsets={})
        version = document.get("version")
        if version != VERSION:
            raise CheckpointError(
                f"the checkpoint has positions of version {version!r}; this reader knows {VERSION}"
            )
        try:
            topics = document["topics"].items()
            return cls(
                cluster_id=str(document["cluster_id"]),
                topic_ids={str(name): str(topic["topic_id"]) for name, topic in topics},
                offsets={
                    TopicPartition(str(name), int(partition)): int(offset)
                    for name, topic in topics
                    for partition, offset in topic["offsets"].items()
                },
                passed={
                    TopicPartition(str(name), int(partition)): int(offset)
                    for name, topic in topics
                    for partition, offset in topic.get(PASSED, {}).items()
                },
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint has broken positions: {error!r}") from error


def least_of(parts: Sequence[StreamPositions]) -> StreamPositions:
    """Return what all sources of a query have read; there must be one, and all of one cluster."""
    offsets: dict[TopicPartition, int] = {}
    for at, offset in (entry for part in parts for entry in part.offsets.items()):
        offsets[at] = min(offset, offsets.get(at, offset))
    return StreamPositions(
        cluster_id=parts[0].cluster_id,
        topic_ids={name: topic_id for part in parts for name, topic_id in part.topic_ids.items()},
        offsets=offsets,
    )


def check_identity(held: StreamPositions, cluster_id: str, topic_ids: Mapping[str, str]) -> None:
    """Refuse positions of another cluster, of a deleted topic, or of one that was re-created.

    `topic_ids` has every topic of the cluster. Raises CheckpointError.
    """
    if held.cluster_id and cluster_id and held.cluster_id != cluster_id:
        raise CheckpointError(
            f"the checkpoint belongs to cluster {held.cluster_id}, and this is {cluster_id}: its "
            "offsets mean other records here"
        )
    for name, topic_id in sorted(held.topic_ids.items()):
        present = topic_ids.get(name)
        if present is None:
            raise TopicGoneError(
                f"topic {name} is gone, and the stream may not have read all of it; " + _WAY_OUT
            )
        if topic_id and present and topic_id != present:
            raise CheckpointError(
                f"topic {name} was deleted and re-created: the checkpoint has topic id {topic_id}, "
                f"the cluster has {present}; " + _WAY_OUT
            )


_WAY_OUT: Final = (
    "to go on without these records, start a new checkpoint with option startingOffsets"
)


def check_log_starts(held: StreamPositions, log_starts: Mapping[TopicPartition, int]) -> None:
    """Refuse to go on where retention has deleted unread records. Raises CheckpointError."""
    for at, log_start in sorted(log_starts.items()):
        offset = held.offsets.get(at)
        if offset is not None and offset < log_start:
            raise CheckpointError(
                f"{at}: retention has deleted the offsets [{offset}, {log_start}) before the "
                "stream read them; " + _WAY_OUT
            )
