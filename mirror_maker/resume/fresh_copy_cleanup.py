"""The copies that a generation has replaced, deleted where an operator has ordered it. Shell.

The order is an entry of the journal with the reason `repair_fresh` (`plan.py`). The opening of
the generation after it says from which target offset on the new copies lie. Everything below is
deleted before the first of them is written, and again by every proof that finds something there:
so it does not matter which worker opened the generation, nor at which step one was killed.
"""

from __future__ import annotations

import logging

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.context import LinkContext
from mirror_maker.formats import Opening
from mirror_maker.formats.gaps import REPAIR_FRESH_REASON

logger = logging.getLogger(__name__)


async def delete_replaced(context: LinkContext, opening: Opening, target: TopicPartition) -> None:
    """Delete what lies before the last generation that was to be fresh. Raises KafkaError."""
    behind = replaced_below(context, opening)
    if behind is None:
        return
    first, end = await context.sink_logs.bounds(target)
    if first >= min(behind, end):
        return
    leader = context.directory.target_leader(target)
    if leader is None:
        raise KafkaError(ErrorCode.leader_not_available, str(target))
    await context.sink.delete_records(leader, target, min(behind, end))
    logger.warning("%s: deleted below offset %d, as was ordered", target, min(behind, end))


def replaced_below(context: LinkContext, opening: Opening) -> int | None:
    """Below which target offset the copy is to be empty; None where nothing was ordered."""
    flow = opening.flow
    orders = [
        entry
        for entry in context.gap_store.state.partition_gaps(flow.source_topic, flow.partition)
        if entry.flow == flow and entry.source_to is None and entry.reason == REPAIR_FRESH_REASON
    ]
    if not orders:
        return None
    last = max(orders, key=lambda entry: entry.producer_epoch)
    following = context.map_store.state.opening_after(flow, last.producer_epoch)
    if following is None or following.source_offset > last.source_from:
        return None  # what it does not copy again would be gone
    return following.target_offset
