"""A flow opened anew on a target partition that has copies of it already. Shell.

The source topic was made anew, or the end of its log was replaced: what is copied from here on is
another log than what was copied before. It is written with the next producer epoch, and the map
begins a new generation with its opening; the older copies stay where they are.

The first batch of a new epoch is no conditional append (see `raise_epoch`), so nothing of ours may
arrive for `epoch_quiet_ms` before. A write of the old epoch that arrives later still is found by
the next proof, and stops the flow.
"""

from __future__ import annotations

import logging

from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.records.header import iter_headers
from local_cluster.wire.errors import ErrorCode, KafkaError

from .context import LinkContext
from .formats import FlowKey, Gap, Opening
from .model import PRODUCER_EPOCH_MAX, FlowFailedError
from .trouble import Trouble

logger = logging.getLogger(__name__)


def next_epoch(epoch: int) -> int:
    """The producer epoch after this one. Raises FlowFailedError where it was the last."""
    if epoch >= PRODUCER_EPOCH_MAX:
        raise FlowFailedError(
            f"the link's producer id has no epochs left ({epoch} is the last); a link of another "
            "name gets another id, and starts anew"
        )
    return epoch + 1


async def open_generation(
    context: LinkContext, flow: FlowKey, target: TopicPartition, source_offset: int
) -> None:
    """Open the flow from a source offset on at the next producer epoch, once the target rests.

    Raises KafkaError: not now. Raises FlowFailedError: never.
    """
    epoch = next_epoch(context.map_store.state.highest_epoch(flow))
    logger.info("%s: a new generation in %d ms", target, context.limits.epoch_quiet_ms)
    before = await context.sink_logs.end(target)
    await context.clock.sleep(context.limits.epoch_quiet_ms)
    end = await context.sink_logs.end(target)
    await check_rest(context, target, before, end)
    await context.map_store.catch_up()
    if context.map_store.state.highest_epoch(flow) >= epoch:
        return  # another worker was first
    if not context.lease.is_valid():
        raise KafkaError(ErrorCode.rebalance_in_progress, "the lease has run out")
    opening = Opening(
        flow=flow,
        producer_id=context.map_store.registration.producer_id,
        producer_epoch=epoch,
        nonce=context.map_store.new_nonce(),
        target_topic=target.topic,
        source_offset=source_offset,
        target_offset=end,
        opened_at_ms=context.clock.now_ms(),
        worker_id=context.worker_id,
    )
    await context.map_store.append([opening])
    await context.map_store.catch_up()


async def check_rest(context: LinkContext, target: TopicPartition, start: int, end: int) -> None:
    """Raises KafkaError where a batch of ours lies in [start, end)."""
    position = start
    while position < end:
        leader = context.directory.target_leader(target)
        if leader is None:
            raise KafkaError(ErrorCode.leader_not_available, str(target))
        fetched = (
            await context.sink.fetch(leader, {target: FetchPosition(position)}, wait_ms_max=0)
        )[target]
        if fetched.error:
            raise KafkaError(fetched.error, str(target))
        before = position
        for _, header in iter_headers(fetched.records):
            if header.producer_id == context.map_store.registration.producer_id:
                raise KafkaError(ErrorCode.concurrent_transactions, f"{target} does not rest yet")
            position = max(position, header.next_offset)
        if position == before:
            raise KafkaError(ErrorCode.offset_not_available, f"{target}: nothing at {before}")


def replaced_log(
    context: LinkContext,
    flow: FlowKey,
    target: TopicPartition,
    *,
    producer_epoch: int,
    source_from: int,
    target_offset: int,
    trouble: Trouble,
    detail: str,
) -> Gap:
    """The journal's entry for what an older generation does not have, and never will."""
    return Gap(
        flow=flow,
        producer_epoch=producer_epoch,
        nonce=context.map_store.new_nonce(),
        link=context.settings.name,
        target_topic=target.topic,
        source_from=source_from,
        source_to=None,
        records_count=None,
        reason=trouble.value,
        detail=detail,
        target_offset=target_offset,
        noticed_at_ms=context.clock.now_ms(),
        worker_id=context.worker_id,
    )
