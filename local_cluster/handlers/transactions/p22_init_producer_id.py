"""InitProducerId v0-v5: ids for idempotent producers, epochs for transactional ones (KIP-98).

Ids come from blocks that brokers reserve in ZooKeeper, so that no two brokers give the same id.
Where brokers know the mirrors, these get ids of their own range (mirror_producers.py). v3:
a producer sends the id and epoch that it has, to continue after an error (KIP-360). v4:
PRODUCER_FENCED, which older versions get as INVALID_PRODUCER_EPOCH. v5: TRANSACTION_ABORTABLE
(KIP-890). v6 (two-phase commit, KIP-939) is unstable in Kafka 4.3 and not served.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from local_cluster.transactions.requests import InitRequest
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get, ms

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v5.request import InitProducerIdRequest

    from local_cluster.wire.responses.transactions import InitProducerIdResponse

PRODUCER_FENCED_SINCE: Final = 4


@handles(ApiKey.INIT_PRODUCER_ID, min_version=0, max_version=5)
def init_producer_id(
    broker: BrokerServices, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """Return the next producer id, or that of the transactional id with a new epoch."""
    transactional_id = request.transactional_id
    if transactional_id is None:
        # Any right to write is enough (KIP-679).
        if not broker.holds(context, "IDEMPOTENT_WRITE", "CLUSTER", "kafka-cluster") and not (
            broker.authorize_any(context, "WRITE", "TOPIC")
        ):
            return _refuse(ErrorCode.cluster_authorization_failed)
        return _next_id(broker, context, get(request, "producer_id", NO_PRODUCER_ID))
    if not broker.authorize(context, "WRITE", "TRANSACTIONAL_ID", transactional_id):
        return _refuse(ErrorCode.transactional_id_authorization_failed)
    producer_id = get(request, "producer_id", NO_PRODUCER_ID)
    epoch = get(request, "producer_epoch", NO_PRODUCER_EPOCH)
    if (producer_id < 0) != (epoch < 0):
        return _refuse(ErrorCode.invalid_request)
    return _initialize(
        broker,
        context,
        InitRequest(transactional_id, ms(request.transaction_timeout), producer_id, epoch),
    )


async def _next_id(
    broker: BrokerServices, context: RequestContext, present_id: int
) -> InitProducerIdResponse:
    """Return a new id; a mirror may name the one that it has and keeps, as Kafka ignores it."""
    try:
        producer_id = None
        if (mirrors := broker.mirror_producers) is not None:
            mirrors.announce(context, present_id)
            producer_id = mirrors.new_id(context)
        if producer_id is None:
            producer_id = await broker.producer_ids.next()
    except KafkaError as error:
        return _refuse(error.code)
    return {"error_code": ErrorCode.none, "producer_id": producer_id, "producer_epoch": 0}


async def _initialize(
    broker: BrokerServices, context: RequestContext, request: InitRequest
) -> InitProducerIdResponse:
    try:
        result = await broker.transactions.init_producer_id(request)
    except KafkaError as error:
        return _refuse(error.code)
    code = result.error
    if code is ErrorCode.producer_fenced and context.api_version < PRODUCER_FENCED_SINCE:
        code = ErrorCode.invalid_producer_epoch
    return {
        "error_code": code,
        "producer_id": result.producer_id,
        "producer_epoch": result.producer_epoch,
    }


def _refuse(code: ErrorCode) -> InitProducerIdResponse:
    return {
        "error_code": code,
        "producer_id": NO_PRODUCER_ID,
        "producer_epoch": NO_PRODUCER_EPOCH,
    }
