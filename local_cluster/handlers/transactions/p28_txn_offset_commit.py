"""TxnOffsetCommit v0-v6: commit offsets that become visible with the transaction (KIP-98).

v2 adds the leader epoch (KIP-320). v3 adds the member and its generation, so that a consumer that
lost its partitions cannot commit (KIP-447). v4 has TRANSACTION_ABORTABLE. v6 has topic ids
(KIP-1319), GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH; before, both are
ILLEGAL_GENERATION. A partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION.

The group's partition of `__consumer_offsets` must be part of the transaction, by AddOffsetsToTxn
or, from v5, by this request itself (partition_verification.py, KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC
from local_cluster.groups.requests import OffsetToCommit, TransactionalCommitRequest
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.handlers.transactions.partition_verification import (
    SupportedOperation,
    begin_verification,
    has_open_transaction,
    is_verification_enabled,
    verify_or_add,
)
from local_cluster.transactions.requests import AddRequest
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import NO_GENERATION
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get

if TYPE_CHECKING:
    from local_cluster.wire.responses.transactions import (
        TxnOffsetCommitResponse,
        TxnOffsetCommitResponsePartition,
        TxnOffsetCommitResponseTopic,
    )
    from local_cluster.wire.schemas.kafka_4_4_messages import TxnOffsetCommitRequest

TOPIC_IDS_SINCE: Final = 6


@handles(ApiKey.TXN_OFFSET_COMMIT, min_version=0, max_version=6)
def txn_offset_commit(
    broker: BrokerServices, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """Commit the offsets of existing topics in a transaction."""
    if not broker.authorize(context, "WRITE", "TRANSACTIONAL_ID", request.transactional_id):
        return _refuse_all(context, request, ErrorCode.transactional_id_authorization_failed)
    if not broker.authorize(context, "READ", "GROUP", request.group_id):
        return _refuse_all(context, request, ErrorCode.group_authorization_failed)
    return _commit(broker, context, request)


async def _commit(
    broker: BrokerServices, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    refused: list[ErrorCode] = []
    offsets: list[OffsetToCommit] = []
    for topic in request.topics:
        name, unknown = _name(broker, context, topic)
        known = broker.metadata.topics.get(name)
        error = ErrorCode.none
        if name and not broker.authorize(context, "READ", "TOPIC", name):
            error = ErrorCode.topic_authorization_failed
        for partition in topic.partitions:
            index = partition.partition_index
            if error is not ErrorCode.none:
                refused.append(error)
            elif known is None:
                refused.append(unknown)
            elif index not in known.partitions:
                refused.append(ErrorCode.unknown_topic_or_partition)
            else:
                refused.append(ErrorCode.none)
                epoch = get(partition, "committed_leader_epoch", -1)
                position = partition.committed_offset, epoch, partition.committed_metadata
                offsets.append(OffsetToCommit(name, index, *position))
    errors: tuple[ErrorCode, ...] = ()
    if offsets:
        try:
            await _require_partition(broker, context, request)
            errors = await broker.groups.commit_transactional(
                TransactionalCommitRequest(
                    request.group_id,
                    get(request, "member_id", ""),
                    get(request, "group_instance_id", None),
                    get(request, "generation_id", NO_GENERATION),
                    request.producer_id,
                    request.producer_epoch,
                    tuple(offsets),
                    context.api_version >= TOPIC_IDS_SINCE,
                )
            )
        except KafkaError as error:
            errors = (error.code,) * len(offsets)
    return _response(context, request, refused, errors)


def _name(broker: BrokerServices, context: RequestContext, topic: Any) -> tuple[str, ErrorCode]:
    """Return the topic's name, "" if its id is unknown, and the error of an unknown topic."""
    if context.api_version < TOPIC_IDS_SINCE:
        return get(topic, "name", ""), ErrorCode.unknown_topic_or_partition
    known = None if topic.topic_id is None else broker.metadata.topic_by_id(topic.topic_id)
    return ("" if known is None else known.name), ErrorCode.unknown_topic_id


async def _require_partition(
    broker: BrokerServices, context: RequestContext, request: TxnOffsetCommitRequest
) -> None:
    """Verify or add the group's partition. Raises KafkaError if it is not in the transaction."""
    operation = SupportedOperation.of_offset_commit(context.api_version)
    if not operation.adds and not is_verification_enabled(broker):
        return
    replica = broker.groups.replica_of(request.group_id)
    if has_open_transaction(replica, request.producer_id, request.producer_epoch):
        return
    key = (OFFSETS_TOPIC, broker.groups.partition_of(request.group_id))
    unverified = begin_verification(replica, request.producer_id, request.producer_epoch)
    wanted = AddRequest(
        request.transactional_id, request.producer_id, request.producer_epoch, frozenset({key})
    )
    error = (await verify_or_add(broker, wanted, operation))[key]
    if error is ErrorCode.none and not unverified.is_still_valid(operation):
        error = ErrorCode.invalid_txn_state
    if error is not ErrorCode.none:
        raise KafkaError(error)


def _refuse_all(
    context: RequestContext, request: TxnOffsetCommitRequest, error: ErrorCode
) -> TxnOffsetCommitResponse:
    return _response(
        context, request, [error for topic in request.topics for _ in topic.partitions], ()
    )


def _response(
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    refused: list[ErrorCode],
    errors: tuple[ErrorCode, ...],
) -> TxnOffsetCommitResponse:
    """One error per partition: its refusal, else the next of `errors`."""
    remaining = iter(errors)
    codes = iter([error or next(remaining) for error in refused])
    topics: list[TxnOffsetCommitResponseTopic] = []
    for topic in request.topics:
        partitions: list[TxnOffsetCommitResponsePartition] = [
            {"partition_index": each.partition_index, "error_code": next(codes)}
            for each in topic.partitions
        ]
        if context.api_version >= TOPIC_IDS_SINCE:
            topics.append({"topic_id": topic.topic_id, "partitions": partitions})
        else:
            topics.append({"name": get(topic, "name", ""), "partitions": partitions})
    return {"topics": topics}
