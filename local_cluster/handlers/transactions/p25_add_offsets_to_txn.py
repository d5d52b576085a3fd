"""AddOffsetsToTxn v0-v4: announce that a transaction commits offsets of a group (KIP-98).

This adds the group's partition of `__consumer_offsets` to the transaction, so that it gets a
marker too. v2 has PRODUCER_FENCED (KIP-588), v4 TRANSACTION_ABORTABLE (KIP-890). Clients of
transaction version 2 send TxnOffsetCommit only, which adds the partition.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.handlers.transactions.marker_wait import add_after_markers
from local_cluster.handlers.transactions.transaction_errors import error_for_version
from local_cluster.transactions.requests import AddRequest
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest

    from local_cluster.wire.responses.transactions import AddOffsetsToTxnResponse


@handles(ApiKey.ADD_OFFSETS_TO_TXN, min_version=0, max_version=4)
def add_offsets_to_txn(
    broker: BrokerServices, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    """Add the group's partition of the offsets topic to the transaction."""
    if not broker.authorize(context, "WRITE", "TRANSACTIONAL_ID", request.transactional_id):
        return {"error_code": ErrorCode.transactional_id_authorization_failed}
    if not broker.authorize(context, "READ", "GROUP", request.group_id):
        return {"error_code": ErrorCode.group_authorization_failed}
    try:
        partition = broker.groups.partition_of(request.group_id)
    except KafkaError as error:
        return {"error_code": error.code}
    adding = AddRequest(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        frozenset({(OFFSETS_TOPIC, partition)}),
        connection_id=context.connection_id,
    )
    return _add(broker, adding, context.api_version)


async def _add(broker: BrokerServices, adding: AddRequest, version: int) -> AddOffsetsToTxnResponse:
    return {"error_code": error_for_version(await add_after_markers(broker, adding), version)}
