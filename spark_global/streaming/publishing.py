"""Publishes the positions of a stream as the committed offsets of a consumer group.

Spark keeps its positions in the checkpoint, so Kafka's tools see nothing of a query. With option
`group` they see a group without members, whose lag is that of the query. The checkpoint alone says
where a query goes on: no query reads these offsets back.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType

from local_cluster.client.admin.group_offsets import (
    CommittedOffset,
    commit_offsets,
    committed_offsets,
    list_groups,
)
from local_cluster.client.client import KafkaClient
from local_cluster.wire.errors import KafkaError
from spark_global.addresses import ClusterAddress
from spark_global.streaming.positions import StreamPositions
from spark_global.streaming.progress import Progress, decode_progress, newest

log = logging.getLogger(__name__)


async def publish_positions(
    cluster: ClusterAddress,
    group: str,
    positions: StreamPositions,
    notes: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Commit positions, with the metadata texts of `notes` by topic.

    A refusal is logged and stops no query.
    """
    commits = {
        at: CommittedOffset(offset, -1, notes.get(at.topic, ""))
        for at, offset in positions.offsets.items()
    }
    if not commits:
        return
    try:
        async with cluster.client() as client:
            answers = await commit_offsets(client, group, commits)
    except KafkaError as error:
        log.warning("group %s: positions are not published: %s", group, error)
        return
    refused = sorted((at, code) for at, code in answers.items() if code)
    if refused:
        at, code = refused[0]
        log.warning(
            "group %s: %d of %d partitions are not published, such as %s: %s",
            *(group, len(refused), len(commits), at, KafkaError(code)),
        )


async def published_progress(client: KafkaClient) -> dict[str, list[Progress]]:
    """Return what streams published last with their offsets, by group. Raises KafkaError."""
    positions = await committed_offsets(client, await list_groups(client))
    found = {}
    for group, commits in sorted(positions.items()):
        notes = [decode_progress(committed.metadata) for committed in commits.values()]
        if entries := newest(note for note in notes if note is not None):
            found[group] = entries
    return found
