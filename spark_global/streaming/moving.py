"""Moves the positions of a stream to another cluster: a checkpoint, or those of a table. Shell."""

from __future__ import annotations

import asyncio
from pathlib import Path

from local_cluster.client.client import KafkaClient
from local_cluster.wire.constants import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from spark_global.addresses import ClusterAddress
from spark_global.source.planning import list_offsets
from spark_global.streaming.checkpoint import copy_checkpoint
from spark_global.streaming.following import MapFollower, topic_ids_of
from spark_global.streaming.positions import (
    CheckpointError,
    StreamPositions,
    check_identity,
    check_log_starts,
)
from spark_global.streaming.translation import (
    Destination,
    IdentifiedMap,
    LinkBehindError,
    translate_positions,
)


async def move_checkpoint(
    old: Path, new: Path, *, here: ClusterAddress, to: ClusterAddress, is_source: bool
) -> list[int]:
    """Copy a checkpoint for another cluster; return the batches that were translated.

    `here` is the aggregate of the query. `to` is another aggregate or, with `is_source`, a source
    of its copies. Its logs must reach the positions. Raises LinkBehindError if a link
    into it is behind, CheckpointError, KafkaError and OSError; nothing is left behind then.
    """
    async with here.client() as client:
        cluster_id, topic_ids, maps = await _read(client)
    async with to.client() as client:
        there, there_ids, there_maps = await _read(client)
        destination = Destination(
            cluster_id=there, topic_ids=there_ids, maps=None if is_source else there_maps
        )
        loop = asyncio.get_running_loop()

        def translate(held: StreamPositions) -> StreamPositions:
            check_identity(held, cluster_id, topic_ids)
            moved = translate_positions(held, maps, destination)
            checking = _check_readable(client, moved, is_source=is_source)
            asyncio.run_coroutine_threadsafe(checking, loop).result()
            return moved

        return await asyncio.to_thread(copy_checkpoint, old, new, translate)


async def move_positions(
    held: StreamPositions, *, here: ClusterAddress, to: ClusterAddress
) -> StreamPositions:
    """Return positions of an aggregate as those of another one, from which a stream can read.

    Raises LinkBehindError if the other one lacks records that were read. Raises CheckpointError if
    the positions cannot be translated or their records are deleted there, and KafkaError.
    """
    async with here.client() as client:
        cluster_id, topic_ids, maps = await _read(client)
    check_identity(held, cluster_id, topic_ids)
    async with to.client() as client:
        there, there_ids, there_maps = await _read(client)
        destination = Destination(cluster_id=there, topic_ids=there_ids, maps=there_maps)
        moved = translate_positions(held, maps, destination)
        await _check_readable(client, moved, is_source=False)
    return moved


async def cluster_id_of(address: ClusterAddress) -> str:
    """Return the id of a cluster, empty if it has none. Raises KafkaError."""
    async with address.client() as client:
        return (await client.metadata([])).cluster_id or ""


async def _check_readable(client: KafkaClient, moved: StreamPositions, *, is_source: bool) -> None:
    """Refuse positions outside of the logs: a link writes its map before its copies."""
    partitions = list(moved.offsets)
    if not partitions:
        return
    starts = await list_offsets(client, partitions, EARLIEST_TIMESTAMP, READ_UNCOMMITTED)
    check_log_starts(moved, {at: entry.offset for at, entry in starts.items()})
    ends = await list_offsets(client, partitions, LATEST_TIMESTAMP, READ_COMMITTED)
    for at, entry in sorted(ends.items()):
        if entry.offset < moved.offsets[at]:
            found = f"{at} ends at {entry.offset}, and the stream goes on at {moved.offsets[at]}; "
            if is_source:
                raise CheckpointError(found + "its log was truncated")
            raise LinkBehindError(found + "wait for the link")


async def _read(client: KafkaClient) -> tuple[str, dict[str, str], tuple[IdentifiedMap, ...]]:
    """Return cluster id, topic ids and maps of a cluster."""
    metadata = await client.metadata()
    follower = MapFollower()
    await follower.poll(client, metadata)
    topic_ids = topic_ids_of(metadata)
    return metadata.cluster_id or "", topic_ids, follower.identified(topic_ids)
