"""EndTxn v0-v5: commit or abort a transaction (KIP-98).

The response leaves when the decision is in the log. The markers follow; until they are written the
next transaction gets CONCURRENT_TRANSACTIONS, which clients retry. v2 has PRODUCER_FENCED
(KIP-588), v4 TRANSACTION_ABORTABLE.

v5 is transaction version 2 (KIP-890): each end raises the epoch, and the response has the id and
epoch of the next transaction. So a delayed duplicate of the request cannot end the next
transaction. Before v5 the two requests are equal: one that arrives on an older connection than
requests that added partitions of the transaction is refused (INVALID_TXN_STATE).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.handlers.transactions.transaction_errors import error_for_version
from local_cluster.transactions.requests import EndRequest, ProducerResponse
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.end_txn.v5.request import EndTxnRequest

    from local_cluster.wire.responses.transactions import EndTxnResponse

VERSION_RAISING_THE_EPOCH: Final = 5


@handles(ApiKey.END_TXN, min_version=0, max_version=5)
def end_txn(
    broker: BrokerServices, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    """Decide the transaction."""
    if not broker.authorize(context, "WRITE", "TRANSACTIONAL_ID", request.transactional_id):
        return _response(context, ProducerResponse(ErrorCode.transactional_id_authorization_failed))
    if not request.transactional_id:
        return _response(context, ProducerResponse(ErrorCode.invalid_request))
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
) -> EndTxnResponse:
    try:
        return _response(context, await broker.transactions.end(request))
    except KafkaError as error:
        return _response(context, ProducerResponse(error.code))


def _response(context: RequestContext, result: ProducerResponse) -> EndTxnResponse:
    return {
        "error_code": error_for_version(result.error, context.api_version),
        "producer_id": result.producer_id,
        "producer_epoch": result.producer_epoch,
    }
