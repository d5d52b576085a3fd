"""TxnOffsetCommit v0-v5: commit offsets that become visible with the transaction (KIP-98).

v2 adds the leader epoch (KIP-320). v3 adds the member and its generation, so that a consumer that
lost its partitions cannot commit (KIP-447). v4 has TRANSACTION_ABORTABLE.

The group's partition of `__consumer_offsets` must be part of the transaction, by AddOffsetsToTxn
or, from v5, by this request itself (partition_verification.py, KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

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
    from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest

    from local_cluster.wire.responses.transactions import TxnOffsetCommitResponse


@handles(ApiKey.TXN_OFFSET_COMMIT, min_version=0, max_version=5)
def txn_offset_commit(
    broker: BrokerServices, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """Commit the offsets of existing topics in a transaction."""
    if not broker.authorize(context, "WRITE", "TRANSACTIONAL_ID", request.transactional_id):
        return _refuse_all(request, ErrorCode.transactional_id_authorization_failed)
    if not broker.authorize(context, "READ", "GROUP", request.group_id):
        return _refuse_all(request, ErrorCode.group_authorization_failed)
    return _commit(broker, context, request)


async def _commit(
    broker: BrokerServices, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    refused: dict[str, ErrorCode] = {}
    offsets: list[OffsetToCommit] = []
    for topic in request.topics:
        if not broker.authorize(context, "READ", "TOPIC", topic.name):
            refused[topic.name] = ErrorCode.topic_authorization_failed
        elif topic.name not in broker.metadata.topics:
            refused[topic.name] = ErrorCode.unknown_topic_or_partition
        else:
            offsets += [
                OffsetToCommit(
                    topic.name,
                    partition.partition_index,
                    partition.committed_offset,
                    get(partition, "committed_leader_epoch", -1),
                    partition.committed_metadata,
                )
                for partition in topic.partitions
            ]
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
                )
            )
        except KafkaError as error:
            errors = (error.code,) * len(offsets)
    return _response(request, refused, errors)


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


def _refuse_all(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    return _response(request, {topic.name: error for topic in request.topics}, ())


def _response(
    request: TxnOffsetCommitRequest,
    refused: dict[str, ErrorCode],
    errors: tuple[ErrorCode, ...],
) -> TxnOffsetCommitResponse:
    """One error per offset: that of its topic, else the next of `errors`."""
    remaining = iter(errors)
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": partition.partition_index,
                        "error_code": refused[topic.name]
                        if topic.name in refused
                        else next(remaining),
                    }
                    for partition in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }
