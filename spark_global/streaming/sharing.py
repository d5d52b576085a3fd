"""How the partitions of a stream share the limit of a batch. Pure.

Every partition gets an equal share. What a partition does not need goes to the others (max-min
fairness). So a partition that is up to date stays so, while another one catches up. Kafka's own
connector shares in proportion to the backlog instead, which makes everyone late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from local_cluster.client.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most that one batch reads; None for no limit."""

    records_max: int | None = None
    bytes_max: int | None = None


def unread(
    positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the offsets to read of each partition with an end.

    A position may lie past the end: a stream that starts at the latest offset waits for the map,
    and `availableNow` fixes the ends before it.
    """
    return {at: max(0, end - positions[at]) for at, end in ends.items() if at in positions}


def share_limit(
    backlogs: Mapping[TopicPartition, int], limit: int, turn: int
) -> dict[TopicPartition, int]:
    """Return what each partition may read, in the unit of `backlogs` and `limit`.

    The shares add up to `limit`, or to all backlogs if these are less. If the limit does not reach
    for one unit per partition, `turn` says who begins: pass a number that grows from batch to
    batch, so that nobody waits for ever.
    """
    assert limit >= 1, limit
    waiting = [at for at, backlog in sorted(backlogs.items()) if backlog > 0]
    if waiting:
        first = turn % len(waiting)
        waiting = waiting[first:] + waiting[:first]
    order = {at: index for index, at in enumerate(waiting)}
    shares: dict[TopicPartition, int] = {}
    left = limit
    # The smallest backlogs first: what they leave is shared by the rest.
    for served, at in enumerate(sorted(waiting, key=lambda at: (backlogs[at], -order[at]))):
        remaining = len(waiting) - served
        shares[at] = min(backlogs[at], left // remaining)
        left -= shares[at]
    for at in waiting:  # the division's remainder
        if left == 0:
            break
        extra = min(1, left, backlogs[at] - shares[at])
        shares[at] += extra
        left -= extra
    return shares


def share_bytes(
    backlogs: Mapping[TopicPartition, int],
    bytes_per_offset: Mapping[TopicPartition, float],
    bytes_max: int,
    turn: int,
) -> dict[TopicPartition, int]:
    """Return how many offsets each partition may read of `bytes_max` bytes.

    At least one offset of one partition is granted, however large its record is.
    """
    wanted = {at: round(n * bytes_per_offset[at]) or 1 for at, n in backlogs.items() if n > 0}
    granted = {
        at: min(backlogs[at], int(share / bytes_per_offset[at]))
        for at, share in share_limit(wanted, bytes_max, turn).items()
    }
    if wanted and not any(granted.values()):
        names = sorted(wanted)
        granted[names[turn % len(names)]] = 1
    return granted
