"""InitProducerId v0-v5: ids for idempotent producers, epochs for transactional ones (KIP-98).

Ids come from blocks that are reserved in ZooKeeper, so that no two brokers give the same one. v3
lets a producer name the id and epoch it had, and so go on after an error (KIP-360); v4 may answer
PRODUCER_FENCED, which older versions are told as INVALID_PRODUCER_EPOCH; v5 is the first that
knows TRANSACTION_ABORTABLE (KIP-890). v6 (two-phase commit, KIP-939) is unstable in Kafka 4.3 and
not served.
"""

from __future__ import annotations

from typing import Any, Final

from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.transactions.requests import InitRequest
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get, ms

VERSION_WITH_PRODUCER_FENCED: Final = 4


@handles(ApiKey.INIT_PRODUCER_ID, min_version=0, max_version=5)
def init_producer_id(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Give the next producer id, or the transactional id's with a new epoch."""
    transactional_id = request.transactional_id
    if transactional_id is None:
        if not broker.authorize(context, "IDEMPOTENT_WRITE", "CLUSTER", "kafka-cluster"):
            return _refusal(ErrorCode.cluster_authorization_failed)
        return _next(broker)
    if not broker.authorize(context, "WRITE", "TRANSACTIONAL_ID", transactional_id):
        return _refusal(ErrorCode.transactional_id_authorization_failed)
    producer_id = int(get(request, "producer_id", -1))
    epoch = int(get(request, "producer_epoch", -1))
    if (producer_id < 0) != (epoch < 0):
        return _refusal(ErrorCode.invalid_request)
    return _initialize(
        broker,
        context,
        InitRequest(transactional_id, ms(request.transaction_timeout), producer_id, epoch),
    )


async def _next(broker: BrokerServices) -> dict[str, Any]:
    try:
        producer_id = await broker.producer_ids.next()
    except KafkaError as error:
        return _refusal(error.code)
    return {"error_code": ErrorCode.none, "producer_id": producer_id, "producer_epoch": 0}


async def _initialize(
    broker: BrokerServices, context: RequestContext, request: InitRequest
) -> dict[str, Any]:
    try:
        answer = await broker.transactions.init_producer_id(request)
    except KafkaError as error:
        return _refusal(error.code)
    error_code = answer.error
    if (
        error_code is ErrorCode.producer_fenced
        and context.api_version < VERSION_WITH_PRODUCER_FENCED
    ):
        error_code = ErrorCode.invalid_producer_epoch
    return {
        "error_code": error_code,
        "producer_id": answer.producer_id,
        "producer_epoch": answer.producer_epoch,
    }


def _refusal(error: ErrorCode) -> dict[str, Any]:
    return {"error_code": error, "producer_id": -1, "producer_epoch": -1}
