"""AddOffsetsToTxn v0-v4: a transaction is going to commit positions of a group (KIP-98).

What joins the transaction is the partition of `__consumer_offsets` where the group lives, so that
it gets a marker too. v2 may answer PRODUCER_FENCED (KIP-588), v4 knows TRANSACTION_ABORTABLE
(KIP-890). Clients of transaction version 2 leave this to TxnOffsetCommit.
"""

from __future__ import annotations

from typing import Any

from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.handlers.transactions.transaction_errors import error_code
from local_cluster.transactions.requests import AddRequest
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError


@handles(ApiKey.ADD_OFFSETS_TO_TXN, min_version=0, max_version=4)
def add_offsets_to_txn(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Add the group's partition of the offsets topic to the transaction."""
    if not broker.authorize(context, "WRITE", "TRANSACTIONAL_ID", request.transactional_id):
        return {"error_code": ErrorCode.transactional_id_authorization_failed}
    if not broker.authorize(context, "READ", "GROUP", request.group_id):
        return {"error_code": ErrorCode.group_authorization_failed}
    try:
        partition = broker.groups.partition_of(request.group_id)
        added = broker.transactions.add_partitions(
            AddRequest(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                frozenset({(OFFSETS_TOPIC, partition)}),
                connection_id=context.connection_id,
            )
        )
    except KafkaError as error:
        return {"error_code": error.code}
    return error_code(added, context.api_version)
