"""The bit fields of KIP-430: what a principal may do, as Metadata and DescribeCluster say it."""

from __future__ import annotations

from typing import Final

from local_cluster.handlers.services import BrokerServices, RequestContext

NOT_ASKED: Final = -(2**31)
"""What stands in the field where the client did not ask."""

_CODES: Final = {
    "READ": 3,
    "WRITE": 4,
    "CREATE": 5,
    "DELETE": 6,
    "ALTER": 7,
    "DESCRIBE": 8,
    "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11,
    "IDEMPOTENT_WRITE": 12,
}
_TOPIC: Final = (
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
)
_CLUSTER: Final = (
    "CREATE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
)


def topic_operations(broker: BrokerServices, context: RequestContext, name: str) -> int:
    """Operations that the principal may do on a topic."""
    return _bits(broker, context, _TOPIC, "TOPIC", name)


def cluster_operations(broker: BrokerServices, context: RequestContext) -> int:
    """Operations that the principal may do on the cluster."""
    return _bits(broker, context, _CLUSTER, "CLUSTER", "kafka-cluster")


def _bits(
    broker: BrokerServices,
    context: RequestContext,
    operations: tuple[str, ...],
    resource_type: str,
    name: str,
) -> int:
    return sum(
        1 << _CODES[operation]
        for operation in operations
        if broker.authorize(context, operation, resource_type, name)
    )
