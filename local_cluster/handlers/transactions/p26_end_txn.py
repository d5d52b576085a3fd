"""EndTxn v0-v5: commit or abort (KIP-98). v2 may answer PRODUCER_FENCED (KIP-588), v4 knows
TRANSACTION_ABORTABLE.

The answer leaves when the decision is in the log; the markers follow, and until they are written
the next transaction is told CONCURRENT_TRANSACTIONS, which clients retry.

v5 is transaction version 2 (KIP-890): every end raises the epoch, and the answer says under which
id and epoch the producer goes on, so that a delayed repetition can never be taken for the end of
the next transaction. Before v5 the two look the same; there a request is refused
(INVALID_TXN_STATE) that comes by an older connection than partitions of the transaction did.
"""

from __future__ import annotations

from typing import Any, Final

from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.handlers.transactions.transaction_errors import told
from local_cluster.transactions.requests import EndRequest, ProducerAnswer
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

VERSION_RAISING_THE_EPOCH: Final = 5


@handles(ApiKey.END_TXN, min_version=0, max_version=5)
def end_txn(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Decide the transaction."""
    if not broker.authorize(context, "WRITE", "TRANSACTIONAL_ID", request.transactional_id):
        return _answer(context, ProducerAnswer(ErrorCode.transactional_id_authorization_failed))
    return _end(
        broker,
        context,
        EndRequest(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            client_version=2 if context.api_version >= VERSION_RAISING_THE_EPOCH else 0,
            connection_id=context.connection_id,
        ),
    )


async def _end(
    broker: BrokerServices, context: RequestContext, request: EndRequest
) -> dict[str, Any]:
    try:
        return _answer(context, await broker.transactions.end(request))
    except KafkaError as error:
        return _answer(context, ProducerAnswer(error.code))


def _answer(context: RequestContext, answer: ProducerAnswer) -> dict[str, Any]:
    return {
        "error_code": told(answer.error, context.api_version),
        "producer_id": answer.producer_id,
        "producer_epoch": answer.producer_epoch,
    }
