"""Moves the checkpoint of a query to another cluster. Shell."""

from __future__ import annotations

from pathlib import Path

from local_cluster.client.client import KafkaClient
from spark_global.addresses import ClusterAddress
from spark_global.streaming.checkpoint import copy_checkpoint
from spark_global.streaming.following import MapFollower, topic_ids_of
from spark_global.streaming.positions import StreamPositions, check_identity
from spark_global.streaming.translation import Destination, IdentifiedMap, translate_positions


async def move_checkpoint(
    old: Path, new: Path, *, here: ClusterAddress, to: ClusterAddress, is_source: bool
) -> list[int]:
    """Copy a checkpoint for another cluster; return the batches that were translated.

    `here` is the aggregate of the query. `to` is another aggregate or, with `is_source`, a source
    of its copies. Raises CheckpointError, KafkaError and OSError.
    """
    async with here.client() as client:
        cluster_id, topic_ids, maps = await _read(client)
    async with to.client() as client:
        there, there_ids, there_maps = await _read(client)
    destination = Destination(
        cluster_id=there, topic_ids=there_ids, maps=None if is_source else there_maps
    )

    def translate(held: StreamPositions) -> StreamPositions:
        check_identity(held, cluster_id, topic_ids)
        return translate_positions(held, maps, destination)

    return copy_checkpoint(old, new, translate)


async def _read(client: KafkaClient) -> tuple[str, dict[str, str], tuple[IdentifiedMap, ...]]:
    """Return cluster id, topic ids and maps of a cluster."""
    metadata = await client.metadata()
    follower = MapFollower()
    await follower.poll(client, metadata)
    topic_ids = topic_ids_of(metadata)
    return metadata.cluster_id or "", topic_ids, follower.identified(topic_ids)
