"""TxnOffsetCommit v0-v5: positions that become visible with the transaction (KIP-98).

v2 adds the leader epoch (KIP-320), v3 the member and its generation, so that a consumer that lost
its partitions cannot commit (KIP-447), v4 knows TRANSACTION_ABORTABLE.

The partition of `__consumer_offsets` must have joined the transaction, by AddOffsetsToTxn or, from
v5 on, by this request itself: a matter for the transaction's coordinator (partition_verification.py, KIP-890).
"""

from __future__ import annotations

from typing import Any

from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC
from local_cluster.groups.requests import OffsetToCommit, TransactionalCommitRequest
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.handlers.transactions.partition_verification import (
    Joining,
    begin,
    is_open,
    is_verifying,
    join,
)
from local_cluster.transactions.requests import AddRequest
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get


@handles(ApiKey.TXN_OFFSET_COMMIT, min_version=0, max_version=5)
def txn_offset_commit(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Commit the positions of existing topics in a transaction."""
    if not broker.authorize(context, "WRITE", "TRANSACTIONAL_ID", request.transactional_id):
        return _all(request, ErrorCode.transactional_id_authorization_failed)
    if not broker.authorize(context, "READ", "GROUP", request.group_id):
        return _all(request, ErrorCode.group_authorization_failed)
    return _commit(broker, context, request)


async def _commit(broker: BrokerServices, context: RequestContext, request: Any) -> dict[str, Any]:
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
            await _join(broker, context, request)
            errors = await broker.groups.commit_transactional(
                TransactionalCommitRequest(
                    request.group_id,
                    get(request, "member_id", ""),
                    get(request, "group_instance_id", None),
                    get(request, "generation_id", -1),
                    request.producer_id,
                    request.producer_epoch,
                    tuple(offsets),
                )
            )
        except KafkaError as error:
            errors = (error.code,) * len(offsets)
    return _answer(request, refused, errors)


async def _join(broker: BrokerServices, context: RequestContext, request: Any) -> None:
    """Have the group's partition in the transaction. Raises KafkaError where it is not."""
    joining = Joining.of_offset_commit(context.api_version)
    if not joining.adds and not is_verifying(broker):
        return
    replica = broker.groups.replica_of(request.group_id)
    if is_open(replica, request.producer_id, request.producer_epoch):
        return
    key = (OFFSETS_TOPIC, broker.groups.partition_of(request.group_id))
    entry = begin(replica, request.producer_id, request.producer_epoch)
    wanted = AddRequest(
        request.transactional_id, request.producer_id, request.producer_epoch, frozenset({key})
    )
    error = (await join(broker, wanted, joining))[key]
    if error is ErrorCode.none and not entry.is_still_good(joining):
        error = ErrorCode.invalid_txn_state
    if error is not ErrorCode.none:
        raise KafkaError(error)


def _all(request: Any, error: ErrorCode) -> dict[str, Any]:
    return _answer(request, {topic.name: error for topic in request.topics}, ())


def _answer(
    request: Any, refused: dict[str, ErrorCode], errors: tuple[ErrorCode, ...]
) -> dict[str, Any]:
    """One error per position: that of its topic, else the next one in order."""
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
