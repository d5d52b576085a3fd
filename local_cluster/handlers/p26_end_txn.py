"""EndTxn v0-v3: commit or abort (KIP-98). v2 may answer PRODUCER_FENCED (KIP-588).

The answer leaves when the decision is in the log; the markers follow, and until they are written
the next transaction is told CONCURRENT_TRANSACTIONS, which clients retry.

In this protocol a delayed repetition of an EndTxn cannot be told from the EndTxn of the next
transaction of the same producer; v5 (KIP-890), which raises the epoch each time, is not served.
"""

from __future__ import annotations

from typing import Any

from local_cluster.transactions.requests import EndRequest
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

from .registry import Reply, RequestContext, handles
from .services import BrokerServices
from .transactional import error_code


@handles(ApiKey.END_TXN, min_version=0, max_version=3)
def end_txn(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Decide the transaction."""
    if not broker.authorize(context, "WRITE", "TRANSACTIONAL_ID", request.transactional_id):
        return {"error_code": ErrorCode.transactional_id_authorization_failed}
    try:
        ended = broker.transactions.end(
            EndRequest(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                request.committed,
            )
        )
    except KafkaError as error:
        return {"error_code": error.code}
    return error_code(ended, context.api_version)
