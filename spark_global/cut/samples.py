"""Reads what a cut needs: the samples of each link, and which topics keep every record. Shell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.wire.constants import EARLIEST_TIMESTAMP
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats.completeness.cut import READ_BACK_MS, CutReader
from mirror_maker.formats.completeness.statement import completeness_topic_name
from spark_global.cut.offsets import time_text
from spark_global.cut.resolving import LinkVector, Vectors
from spark_global.links import MirrorLink
from spark_global.source.options import ReadOptions

CLEANUP_POLICY: Final = "cleanup.policy"


async def read_vectors(options: ReadOptions) -> Vectors:
    """Return where the sources of all links ended at `as_of`, and at `since`. Raises KafkaError.

    The samples are those of the cluster with the offset maps.
    """
    assert options.as_of is not None, "the caller has checked it"
    times = [options.as_of] if options.since is None else [options.as_of, options.since]
    found: list[dict[str, LinkVector]] = [{} for _ in times]
    async with options.maps.client() as client:
        for link in options.links:
            for by_link, vector in zip(found, await _of_link(client, link, times), strict=True):
                by_link[link.name or ""] = vector
    return Vectors(found[0], found[1] if options.since is not None else None)


async def _of_link(client: KafkaClient, link: MirrorLink, times: list[int]) -> list[LinkVector]:
    """Return where the sources of a link ended at each time. One pass reads the topic for all."""
    if link.name is None:
        return [LinkVector({}, "its link has no name, so its samples are not known") for _ in times]
    topic = completeness_topic_name(link.name)
    if topic not in (await client.metadata()).topics:
        problem = f"{topic} does not exist, or the right to read it is missing"
        return [LinkVector({}, problem) for _ in times]
    at = TopicPartition(topic, 0)
    log_start = (await _offset(client, at, EARLIEST_TIMESTAMP)) or 0
    starts = [await _offset(client, at, max(0, time - READ_BACK_MS)) for time in times]
    readers = [CutReader(time) for time in times]
    present = [start for start in starts if start is not None]
    if present:
        async for record in read_topic(client, topic, from_offset=min(present)):
            for reader, start in zip(readers, starts, strict=True):
                if start is not None and record.offset >= start:
                    reader.replay(record.value)
    return [
        # Samples before the log start are deleted, perhaps in the time that must be read.
        LinkVector({}, f"the samples of {time_text(time)} are deleted from {topic}")
        if start is not None and start <= log_start and log_start > 0
        else LinkVector(reader.cuts())
        for time, start, reader in zip(times, starts, readers, strict=True)
    ]


async def _offset(client: KafkaClient, at: TopicPartition, timestamp_ms: int) -> int | None:
    """Return the first offset of a time, or None if there is none. Raises KafkaError."""
    listed = (await client.list_offsets({at: timestamp_ms}))[at]
    if listed.error:
        raise KafkaError(listed.error, str(at))
    return listed.offset if listed.offset >= 0 else None


async def read_not_kept(client: KafkaClient, topics: Iterable[str]) -> dict[str, str]:
    """Return the topics that are compacted, or may be, with the reason. Raises KafkaError."""
    names = sorted(topics)
    found: dict[str, str] = {}
    for name, configs in (await client.ask_topic_configs(names) if names else {}).items():
        if isinstance(configs, KafkaError):
            found[name] = f"it is unknown whether {name} is compacted: {configs}"
        elif "compact" in (configs.get(CLEANUP_POLICY, (None, True))[0] or ""):
            found[name] = f"{name} is compacted, so its log does not keep every record"
    return found
