"""Troubles that a flow meets while it copies, and how their cause is found out. Shell."""

from __future__ import annotations

from local_cluster.wire.constants import READ_COMMITTED
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.partition_log import PartitionLog
from mirror_maker.copy.passthrough import PreparedBatch
from mirror_maker.formats import FlowKey
from mirror_maker.model import FlowFailedError, SourceGap
from mirror_maker.resume.divergence import TruncatedError
from mirror_maker.resume.source_log import SourceLog
from mirror_maker.rules.trouble import Trouble


class OutOfRangeError(FlowFailedError):
    """The source does not have this offset; `explain_out_of_range` finds out why."""

    def __init__(self, position: int) -> None:
        super().__init__(f"source offset {position} is out of range", Trouble.OUT_OF_RANGE)
        self.position = position


class RefusedBatchError(FlowFailedError):
    """The target refuses the batch itself."""

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
        """Whether the target may accept some of the records in another batch."""
        return self.trouble is not Trouble.UNSUPPORTED_CODEC


def recreated_error(flow: FlowKey) -> FlowFailedError:
    """Return the trouble of a source topic that has another topic id."""
    return FlowFailedError(f"{flow.source_topic} was deleted and re-created", Trouble.RECREATED)


async def explain_out_of_range(source: SourceLog, flow: FlowKey, position: int) -> FlowFailedError:
    """Return why the source has no such offset. Raises KafkaError if it has it after all."""
    first, end = await source.bounds()
    fetched = await source.fetch(position, isolation_level=READ_COMMITTED)
    # Asked last: the offsets above belong to this topic, or to an older one of the name.
    if not await source.has_topic_id(flow.source_topic_id):
        return recreated_error(flow)
    if fetched.error != ErrorCode.offset_out_of_range:
        code = fetched.error or ErrorCode.offset_out_of_range
        raise KafkaError(code, f"{source.at}: {position}")
    if position < first:
        return FlowFailedError(
            f"source offset {position} is out of range: the source begins at {first}",
            Trouble.OUT_OF_RANGE,
            SourceGap(position, first, None),
        )
    return TruncatedError(
        flow, f"the source ends at {end}, but was copied up to {position}: its log was truncated"
    )


async def confirm_truncation(source: SourceLog, error: TruncatedError) -> None:
    """Raise KafkaError, unless the source's leader is the one that reports the truncation.

    A Fetch may be answered by a broker that leads no more: a follower whose log ends early reports
    its own end. Only a leader answers ListOffsets, before and after the repeated Fetch.
    """
    if error.reported_at is None:
        return
    await source.bounds()
    fetched = await source.fetch(
        error.reported_at.offset,
        isolation_level=READ_COMMITTED,
        last_fetched_epoch=error.reported_at.last_fetched_epoch,
    )
    await source.bounds()
    is_out_of_range = fetched.error == ErrorCode.offset_out_of_range
    if fetched.diverging_epoch is None and not is_out_of_range:
        code = fetched.error or ErrorCode.offset_not_available
        raise KafkaError(code, f"{source.at}: the leader has offset {error.reported_at.offset}")


async def learn_batch_limit(target: PartitionLog, refused_bytes: int) -> int:
    """Return the batch size that the target accepts, after it refused one of `refused_bytes`."""
    try:
        configs = await target.configs()
    except KafkaError:
        configs = {}  # no right to describe them: find the limit by trial
    described = configs.get("max.message.bytes", (None, True))[0]
    limit = int(described) if described is not None and described.isdecimal() else refused_bytes
    return limit if limit < refused_bytes else refused_bytes // 2
