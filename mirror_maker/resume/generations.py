"""A flow opened anew on a target partition that has copies of it already. Shell.

The source topic was deleted and re-created, or the end of its log was replaced: what is copied from
here on is another log than what was copied before. It is written with the next producer epoch, and
the map begins a new generation with its opening; the older copies stay where they are.

The first batch of a new epoch is no conditional append (see `raise_epoch`), so nothing of ours may
arrive for `epoch_quiet_ms` before. A write of the old epoch that arrives later still is found by
the next proof, and stops the flow.

Why that time is not shorter: a write of the old epoch may be on its way from a worker that was
stopped or cut off. No question to the target shows it, DescribeProducers included, and only a
batch of the new epoch keeps it out: from then on the leader refuses the old epoch. So what counts
is a time in which nothing arrived, after the old log ended. It begins as soon as a worker knows
that the log has ended: when it sees that the source topic is gone, or else when it first wants to
open. Nobody can fetch anything more of a log that has ended, so both are as good.

The time is not slept in here. `NotRestedError` says how much of it is left, and the flow waits
aside: it holds up no other proof, tells what it waits for, and can be stopped.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Final

from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.records.header import iter_headers
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.context import LinkContext, Rest
from mirror_maker.formats import FlowKey, Gap, Opening
from mirror_maker.model import PRODUCER_EPOCH_MAX, FlowFailedError
from mirror_maker.rules.trouble import Trouble

logger = logging.getLogger(__name__)

_RESTLESS: Final = frozenset({ErrorCode.concurrent_transactions, ErrorCode.offset_out_of_range})
"""Something of ours has arrived, or has gone with what could tell."""


def next_epoch(epoch: int) -> int:
    """The producer epoch after this one. Raises FlowFailedError where it was the last."""
    if epoch >= PRODUCER_EPOCH_MAX:
        raise FlowFailedError(
            f"the link's producer id has no epochs left ({epoch} is the last); a link of another "
            "name gets another id, and starts anew"
        )
    return epoch + 1


class NotRestedError(KafkaError):
    """The target partition must rest for longer before a new epoch may be written there."""

    def __init__(self, message: str, wait_ms: int) -> None:
        super().__init__(ErrorCode.concurrent_transactions, message)
        self.wait_ms = wait_ms
        """How much longer."""


async def open_generation(
    context: LinkContext,
    flow: FlowKey,
    target: TopicPartition,
    source_offset: int,
    looked_to: int | None,
) -> None:
    """Open the flow from a source offset on at the next producer epoch, once the target rests.

    The target was looked at below `looked_to`; the next proof looks at what lies behind. None:
    an operator has said what becomes of everything that is there.
    Raises NotRestedError: call again after its time. Raises KafkaError: not now. Raises
    FlowFailedError: never.
    """
    epoch = next_epoch(context.map_store.state.highest_epoch(flow))
    end = await _end_after_rest(context, target)
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
        target_offset=end if looked_to is None else min(looked_to, end),
        opened_at_ms=context.clock.now_ms(),
        worker_id=context.worker_id,
    )
    await context.map_store.append([opening])
    await context.map_store.catch_up()


async def _end_after_rest(context: LinkContext, target: TopicPartition) -> int:
    """The target's end, where nothing of ours has arrived for `epoch_quiet_ms`. Raises KafkaError:
    NotRestedError where that time has not passed, another one where something has arrived."""
    quiet_ms = context.limits.epoch_quiet_ms
    rest = context.rests.get(target)
    if rest is None:
        end = await context.sink_logs.end(target)
        # After the answer: what arrived before it lies below the end.
        rest = context.rests[target] = Rest(end, context.clock.monotonic_ms())
        logger.info("%s: a new generation in %d ms", target, quiet_ms)
    wait_ms = rest.since_ms + quiet_ms - context.clock.monotonic_ms()
    if wait_ms > 0:
        at = datetime.fromtimestamp((context.clock.now_ms() + wait_ms) / 1000, UTC)
        raise NotRestedError(
            f"a new generation begins at {at:%Y-%m-%dT%H:%M:%SZ}, if no write of the old one "
            f"arrives in {target} until then",
            wait_ms,
        )
    end = await context.sink_logs.end(target)
    try:
        if end < rest.offset:
            raise KafkaError(ErrorCode.offset_out_of_range, f"{target} ends at {end} now")
        await check_rest(context, target, rest.offset, end)
    except KafkaError as error:
        if error.code in _RESTLESS:
            del context.rests[target]  # its time begins anew
        raise
    return end


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
