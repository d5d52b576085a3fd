"""InitProducerId v0-v4: ids for idempotent producers (KIP-98).

Ids come from blocks that are reserved in ZooKeeper, so that no two brokers give the same one.
Deviations: a transactional id is refused with
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, a final error: there are no transactions yet.
"""

from __future__ import annotations

from typing import Any

from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

from .registry import Reply, RequestContext, handles
from .services import BrokerServices


@handles(ApiKey.INIT_PRODUCER_ID, min_version=0, max_version=4)
def init_producer_id(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Give the next producer id."""
    refusal = {"error_code": ErrorCode.none, "producer_id": -1, "producer_epoch": -1}
    if request.transactional_id is not None:
        return refusal | {"error_code": ErrorCode.transactional_id_authorization_failed}
    if not broker.authorize(context, "IDEMPOTENT_WRITE", "CLUSTER", "kafka-cluster"):
        return refusal | {"error_code": ErrorCode.cluster_authorization_failed}
    return _next(broker)


async def _next(broker: BrokerServices) -> dict[str, Any]:
    try:
        producer_id = await broker.producer_ids.next()
    except KafkaError as error:
        return {"error_code": error.code, "producer_id": -1, "producer_epoch": -1}
    return {"error_code": ErrorCode.none, "producer_id": producer_id, "producer_epoch": 0}
