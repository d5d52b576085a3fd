"""Metrics of the groups that this broker coordinates: offsets and lag by partition, and states.

Names are those of kafka_exporter, and of Kafka's GroupMetadataManager. The lag of a partition is
its high watermark less the committed offset, and in seconds the age of the first unread record. An
unknown lag has no sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from local_cluster.groups.classic.classic_fsm import GroupState
from local_cluster.groups.coordinator import GroupCoordinator
from local_cluster.groups.offset_times import Place, Time
from local_cluster.groups.offsets import TopicPartition
from local_cluster.groups.shard import GroupShard
from local_cluster.monitoring.lag.unread_times import lag_seconds
from local_cluster.monitoring.partition_rows import Row
from local_cluster.prometheus_text import Family, Head, Sample, escaped, gauge

_PREFIX: Final = "kafka_consumergroup_"
HEADS: Final = (
    Head(f"{_PREFIX}current_offset", "gauge", "Committed offset."),
    Head(f"{_PREFIX}lag", "gauge", "Committed records that the group has not read."),
    Head(
        f"{_PREFIX}group_lag_seconds",
        "gauge",
        "Age of the first committed record that the group has not read; 0 if there is none.",
    ),
    Head(f"{_PREFIX}members", "gauge", "Members of the group."),
)


class GroupCounts:
    """Sums over the groups of this coordinator."""

    def __init__(self) -> None:
        self.offsets = 0
        self.states: Counter[tuple[str, str]] = Counter()
        """By protocol (classic, consumer) and state."""


def committed_partitions(coordinator: GroupCoordinator) -> Iterator[TopicPartition]:
    """Yield the partitions with committed offsets, some of them more than once."""
    for shard in coordinator.shards():
        for group_id in shard.state.offsets.group_ids():
            yield from shard.state.offsets.committed(group_id)


def group_rows(
    coordinator: GroupCoordinator,
    ends: Mapping[TopicPartition, int],
    times: Mapping[Place, Time],
    now_ms: int,
    counts: GroupCounts,
) -> Iterator[Row]:
    """Yield a row per group, and one per partition with an offset; add to `counts`.

    `ends` are the high watermarks that are known, `times` those of unread records; `now_ms` is
    the wall clock.
    """
    for shard in coordinator.shards():
        for group_id, members in _members(shard, counts):
            yield "", "", "", f'{_PREFIX}members{{consumergroup="{escaped(group_id)}"}} {members}\n'
        for group_id in shard.state.offsets.group_ids():
            group = escaped(group_id)
            for key, committed in shard.state.offsets.committed(group_id).items():
                offset = committed.offset
                counts.offsets += 1
                at = f'{{consumergroup="{group}",topic="{key[0]}",partition="{key[1]}"}}'
                end = ends.get(key)
                seconds = ""
                if end is not None:
                    behind = lag_seconds(Place(*key, offset), end, times, now_ms)
                    if behind is not None:
                        seconds = f"{_PREFIX}group_lag_seconds{at} {behind}\n"
                lag = "" if end is None else f"{_PREFIX}lag{at} {max(end - offset, 0)}\n"
                yield f"{_PREFIX}current_offset{at} {offset}\n", lag, seconds, ""


def group_families(counts: GroupCounts) -> Iterator[Family]:
    """Yield the groups by state."""
    prefix = "kafka_coordinator_group_groupmetadatamanager_num"
    yield gauge(
        f"{prefix}groups", "Groups of this coordinator.", Sample(sum(counts.states.values()))
    )
    yield gauge(f"{prefix}offsets", "Offsets of these groups.", Sample(counts.offsets))
    for state in GroupState:
        yield gauge(
            f"{prefix}groups{state.value.lower()}",
            f"Classic groups in state {state.value}.",
            Sample(counts.states["classic", state.value]),
        )
    yield gauge(
        "kafka_server_group_coordinator_metrics_group_count",
        "Groups, by protocol and state.",
        *(
            Sample(count, {"protocol": protocol, "state": state})
            for (protocol, state), count in sorted(counts.states.items())
        ),
    )


def _members(shard: GroupShard, counts: GroupCounts) -> Iterator[tuple[str, int]]:
    for classic in tuple(shard.state.classic_groups.values()):
        counts.states["classic", classic.state.value] += 1
        yield classic.group_id, len(classic.members)
    for group in shard.state.consumer_groups:
        counts.states["consumer", group.state.value] += 1
        yield group.group_id, len(group.members)
