"""AlterPartition v3 (KIP-497, KIP-903): a leader asks the controller to write its ISR.

Inter-broker listener only, the controller only (NOT_CONTROLLER). The partition epoch is the version
of the partition's znode, as in Kafka's ZooKeeper mode. v2 lacks the brokers' epochs and is not
served: all our brokers send v3.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from local_cluster.controller.model import isr_proposals
from local_cluster.handlers.broker_requests import is_from_broker
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.alter_partition.v3.request import AlterPartitionRequest

    from local_cluster.wire.responses.cluster import AlterPartitionResponse


@handles(ApiKey.ALTER_PARTITION, min_version=3, max_version=3, is_advertised=False)
def alter_partition(
    broker: BrokerServices, context: RequestContext, request: AlterPartitionRequest
) -> AlterPartitionResponse | Awaitable[AlterPartitionResponse]:
    """Write the ISRs that may be written."""
    if not is_from_broker(broker, context):
        return {"error_code": ErrorCode.cluster_authorization_failed, "topics": ()}
    return _alter(broker, request)


async def _alter(broker: BrokerServices, request: AlterPartitionRequest) -> AlterPartitionResponse:
    try:
        results = await broker.control_plane.alter_partitions(
            request.broker_id, request.broker_epoch, isr_proposals.read_request(request)
        )
    except KafkaError as error:
        return {"error_code": error.code, "topics": ()}
    return isr_proposals.response_fields(results)
