"""AlterPartition v3 (KIP-497, KIP-903): a leader asks the controller to write its ISR.

Inter-broker listener only, the controller only (NOT_CONTROLLER). The partition epoch is the version
of the partition's znode, as in Kafka's ZooKeeper mode. v2, which lacks the brokers' epochs, is not
served: our brokers all speak v3.
"""

from __future__ import annotations

from typing import Any

from local_cluster.controller.member import isr_messages
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError


@handles(ApiKey.ALTER_PARTITION, min_version=3, max_version=3, is_advertised=False)
def alter_partition(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Write what may be written."""
    trusted = context.listener == broker.settings.inter_broker_listener
    if not trusted or not broker.authorize(context, "CLUSTER_ACTION", "CLUSTER", "kafka-cluster"):
        return {"error_code": ErrorCode.cluster_authorization_failed, "topics": ()}
    return _alter(broker, request)


async def _alter(broker: BrokerServices, request: Any) -> dict[str, Any]:
    try:
        results = await broker.control_plane.alter_partitions(
            int(request.broker_id), int(request.broker_epoch), isr_messages.read_request(request)
        )
    except KafkaError as error:
        return {"error_code": error.code, "topics": ()}
    return isr_messages.response_fields(results)
