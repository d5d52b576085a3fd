"""ListPartitionReassignments v0 (KIP-455): there are none.

Partitions are not moved between brokers yet, so the list is empty, on every broker (Kafka with
ZooKeeper answers on the controller only). Tools ask before they describe a topic.
"""

from __future__ import annotations

from typing import Any

from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

from .registry import Reply, RequestContext, handles
from .services import BrokerServices


@handles(ApiKey.LIST_PARTITION_REASSIGNMENTS, min_version=0, max_version=0)
def list_partition_reassignments(
    broker: BrokerServices, context: RequestContext, request: Any
) -> Reply:
    """Nothing is being moved."""
    error = ErrorCode.none
    if not broker.authorize(context, "DESCRIBE", "CLUSTER", "kafka-cluster"):
        error = ErrorCode.cluster_authorization_failed
    return {"error_code": error, "error_message": None, "topics": ()}
