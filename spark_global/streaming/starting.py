"""The first position of each partition that enters a stream.

A partition that exists when the query first runs begins where the options say. One that appears
later begins at its log start, because every record in it is newer than the query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.wire.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, READ_UNCOMMITTED
from spark_global.source.options import EARLIEST, LATEST, ReadOptions
from spark_global.source.planning import list_offsets


async def first_offsets(
    client: KafkaClient,
    options: ReadOptions,
    joining: Sequence[TopicPartition],
    stable_ends: Mapping[TopicPartition, int],
    *,
    is_first_batch: bool,
) -> dict[TopicPartition, int]:
    """Return where reading begins in each partition.

    Raises KafkaError, and ValueError for a given offset outside of its log.
    """
    if not joining:
        return {}
    listed = await list_offsets(client, joining, EARLIEST_TIMESTAMP, READ_UNCOMMITTED)
    log_starts = {at: entry.offset for at, entry in listed.items()}
    if not is_first_batch:
        return log_starts
    if options.starting_timestamp is not None:
        at_time = max(0, options.starting_timestamp)
        found = await list_offsets(client, joining, at_time, READ_UNCOMMITTED)
        return {
            at: entry.offset if entry.offset >= 0 else stable_ends[at]
            for at, entry in found.items()
        }
    match options.starting_offsets:
        case str(place):
            assert place in (EARLIEST, LATEST), place
            return log_starts if place == EARLIEST else {at: stable_ends[at] for at in joining}
        case given:
            return given_offsets(given, log_starts, stable_ends)


def given_offsets(
    given: Mapping[TopicPartition, int],
    log_starts: Mapping[TopicPartition, int],
    stable_ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the given offset of each partition of `log_starts`, or its log start. Pure.

    Raises ValueError for an offset outside of its log, and for a partition that is not read.
    """
    unknown = sorted(given.keys() - log_starts.keys())
    if unknown:
        raise ValueError(f"option starting_offsets: {unknown[0]} is none of the partitions to read")
    offsets = dict(log_starts)
    for at, offset in given.items():
        first, end = log_starts[at], stable_ends[at]
        offset = {EARLIEST_TIMESTAMP: first, LATEST_TIMESTAMP: end}.get(offset, offset)
        if not first <= offset <= end:
            raise ValueError(
                f"option starting_offsets: {at} has the offsets [{first}, {end}), not {offset}"
            )
        offsets[at] = offset
    return offsets
