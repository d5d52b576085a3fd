"""Which logs on this broker are of topics that are no more (KAFKA-7362). Pure.

A broker that was away while a topic was deleted comes back with the log of a replica that nobody
will ever ask it to delete: its move to other brokers was over, so that the deletion did not wait
for it.

    topic is not there                 stray; the topics must be all there are
    there is no topic at all           kept, all of it: that is no evidence, but a lost ZooKeeper
    log without a topic id             kept: nobody knows what it is of
    topic is there with another id     not here: replica_set.py sets it aside as soon as it hears
    topic names other replicas         not here: replica_set.py deletes it, on that positive record
    topic has no such partition        kept: partitions are never removed, so something is wrong
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from local_cluster.controller.model.cluster_image import TopicState
from local_cluster.log.partition.partition_log import PartitionLog


def find_strays(
    logs: Iterable[PartitionLog], topics: Mapping[str, TopicState]
) -> list[PartitionLog]:
    """The logs that no topic accounts for."""
    if not topics:
        return []
    return [log for log in logs if log.topic_id is not None and log.topic not in topics]
