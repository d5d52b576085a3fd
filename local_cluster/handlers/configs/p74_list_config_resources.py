"""ListConfigResources v0-v1 (KIP-1142): the resources that have configs.

v0 lists client metrics only. v1 has a filter of types; without one it lists all: topics, brokers,
loggers of brokers, client metrics, and groups that have configs. An unknown type is
UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from local_cluster.controller.model import znode_paths
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import ConfigResourceType
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.messages import get

if TYPE_CHECKING:
    from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

    from local_cluster.wire.responses.configs import ListConfigResourcesResponse

KNOWN: Final = frozenset[int](ConfigResourceType)


@handles(ApiKey.LIST_CONFIG_RESOURCES, min_version=0, max_version=1)
def list_config_resources(
    broker: BrokerServices, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List the resources by type, then by name."""
    if not broker.authorize(context, "DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster"):
        return {"error_code": ErrorCode.cluster_authorization_failed, "config_resources": ()}
    types_filter: Sequence[int] = get(request, "resource_types", ())
    types = frozenset(types_filter) or KNOWN
    if context.api_version == 0:
        types = frozenset({ConfigResourceType.CLIENT_METRICS})
    if not types <= KNOWN:
        return {"error_code": ErrorCode.unsupported_version, "config_resources": ()}
    brokers = [str(broker_id) for broker_id in sorted(broker.metadata.brokers)]
    names: dict[int, list[str]] = {
        ConfigResourceType.TOPIC: sorted(broker.metadata.topics),
        ConfigResourceType.BROKER: brokers,
        ConfigResourceType.BROKER_LOGGER: brokers,
        ConfigResourceType.CLIENT_METRICS: _entities(broker, znode_paths.CLIENT_METRICS_CONFIGS),
        ConfigResourceType.GROUP: _entities(broker, znode_paths.GROUP_CONFIGS),
    }
    return {
        "error_code": ErrorCode.none,
        "config_resources": [
            {"resource_name": name, "resource_type": kind}
            for kind in sorted(types)
            for name in names.get(kind, ())
        ],
    }


def _entities(broker: BrokerServices, kind: str) -> list[str]:
    found = map(znode_paths.kind_and_name, broker.metadata.entity_configs)
    return sorted(name for other, name in found if other == kind)
