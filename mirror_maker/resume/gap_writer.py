"""The shell of `skip`: what a trouble leaves out is found out, and written into the journal.

Order, so that a crash at any point loses nothing and writes nothing twice: everything before the
gap is acknowledged; the map says so; the journal's entry is written and read back; only then the
position is proved anew, behind the gap.
"""

from __future__ import annotations

from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.wire.constants import READ_COMMITTED
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.context import LinkContext
from mirror_maker.copy.passthrough import PreparedBatch
from mirror_maker.formats import FlowKey, Gap
from mirror_maker.model import FlowFailedError, SourceGap
from mirror_maker.resume.divergence import TruncatedError
from mirror_maker.rules.trouble import Trouble


class OutOfRangeError(FlowFailedError):
    """The source answered that it does not have this offset; why is still to be found out."""

    def __init__(self, position: int) -> None:
        super().__init__(f"source offset {position} is out of range", Trouble.OUT_OF_RANGE)
        self.position = position


class RefusedBatchError(FlowFailedError):
    """The target refuses a batch for itself."""

    def __init__(self, refused: PreparedBatch, trouble: Trouble, error: KafkaError) -> None:
        gap = SourceGap(refused.source_first, refused.source_next, refused.records_count)
        super().__init__(
            f"the target refuses source offsets {gap.source_from}..{refused.source_next - 1}:"
            f" {error}",
            trouble,
            gap,
        )
        self.refused = refused

    @property
    def is_by_record(self) -> bool:
        """Whether another cut of the same records may be taken in part."""
        return self.trouble is not Trouble.UNSUPPORTED_CODEC


async def explain_out_of_range(
    context: LinkContext, flow: FlowKey, position: int
) -> FlowFailedError:
    """Why the source has no such offset. Raises KafkaError where it has it after all."""
    source = TopicPartition(flow.source_topic, flow.partition)
    first, end = await context.source_logs.bounds(source)
    leader = context.directory.source_leader(source)
    if leader is None:
        raise KafkaError(ErrorCode.leader_not_available, str(source))
    fetched = (
        await context.source.fetch(
            leader, {source: FetchPosition(position)}, wait_ms_max=0, isolation_level=READ_COMMITTED
        )
    )[source]
    # Asked last: offsets that were told before are those of this topic, or of an older one.
    if not await is_same_topic(context, flow):
        return made_anew(flow)
    if fetched.error != ErrorCode.offset_out_of_range:
        raise KafkaError(fetched.error or ErrorCode.offset_out_of_range, f"{source}: {position}")
    if position < first:
        return FlowFailedError(
            f"source offset {position} is out of range: the source begins at {first}",
            Trouble.OUT_OF_RANGE,
            SourceGap(position, first, None),
        )
    return TruncatedError(
        flow, f"the source ends at {end}, but was copied up to {position}: its log was cut back"
    )


async def is_same_topic(context: LinkContext, flow: FlowKey) -> bool:
    """Whether the source's leader still knows the flow's topic by its id. Raises KafkaError."""
    source = TopicPartition(flow.source_topic, flow.partition)
    leader = context.directory.source_leader(source)
    if leader is None:
        raise KafkaError(ErrorCode.leader_not_available, str(source))
    found = (await context.source.topic_ids(leader, [source.topic])).get(source.topic)
    if found is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, str(source))
    return found == flow.source_topic_id


def made_anew(flow: FlowKey) -> FlowFailedError:
    """What to say of a topic that is not the same any more."""
    return FlowFailedError(f"{flow.source_topic} was deleted and made anew", Trouble.RECREATED)


async def note_gap(
    context: LinkContext,
    flow: FlowKey,
    target: TopicPartition,
    producer_epoch: int,
    target_offset: int,
    error: FlowFailedError,
) -> Gap:
    """Have the error's gap in the journal; the entry that holds. Raises KafkaError."""
    assert error.gap is not None
    return await context.gap_store.note(
        Gap(
            flow=flow,
            producer_epoch=producer_epoch,
            nonce=context.map_store.new_nonce(),
            link=context.settings.name,
            target_topic=target.topic,
            source_from=error.gap.source_from,
            source_to=error.gap.source_to,
            records_count=error.gap.records_count,
            reason=error.trouble.value,
            detail=str(error),
            target_offset=target_offset,
            noticed_at_ms=context.clock.now_ms(),
            worker_id=context.worker_id,
        )
    )


async def learn_batch_limit(context: LinkContext, topic: str, refused_bytes: int) -> int:
    """Bytes of a batch that the target takes, after it refused one of `refused_bytes`."""
    try:
        configs = (await context.sink.describe_topic_configs([topic])).get(topic, {})
    except KafkaError:
        configs = {}  # it may not be asked; then by trial
    told = configs.get("max.message.bytes", (None, True))[0]
    limit = int(told) if told is not None and told.isdecimal() else refused_bytes
    return limit if limit < refused_bytes else refused_bytes // 2
