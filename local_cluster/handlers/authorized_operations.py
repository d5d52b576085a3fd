"""The bit fields of KIP-430: what a principal may do, for responses that describe a resource."""

from __future__ import annotations

from typing import Final

from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.constants import CLUSTER_NAME, AclOperation

_TOPIC: Final = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
_GROUP: Final = (
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
_CLUSTER: Final = (
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)


def topic_operations(broker: BrokerServices, context: RequestContext, name: str) -> int:
    """Return the operations that the principal may do on a topic."""
    return _bits(broker, context, _TOPIC, "TOPIC", name)


def group_operations(broker: BrokerServices, context: RequestContext, group_id: str) -> int:
    """Return the operations that the principal may do on a group."""
    return _bits(broker, context, _GROUP, "GROUP", group_id)


def cluster_operations(broker: BrokerServices, context: RequestContext) -> int:
    """Return the operations that the principal may do on the cluster; 0 without DESCRIBE."""
    if not broker.authorize(context, "DESCRIBE", "CLUSTER", CLUSTER_NAME):
        return 0
    return _bits(broker, context, _CLUSTER, "CLUSTER", CLUSTER_NAME)


def _bits(
    broker: BrokerServices,
    context: RequestContext,
    operations: tuple[AclOperation, ...],
    resource_type: str,
    name: str,
) -> int:
    return sum(
        1 << operation
        for operation in operations
        if broker.may(context, operation.name, resource_type, name)
    )
