"""ListConfigResources v0-v1 (KIP-1142): the resources that have configs.

v0 knows client metrics only, of which there are none. v1 names the types that it wants; without
any, all of them: topics, brokers, loggers of brokers, and client metrics and groups, which have no
configs here. A type that is not among these is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from typing import Any, Final

from local_cluster.handlers.configs.config_resources import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
)
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.messages import get

KNOWN: Final = frozenset({TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP})


@handles(ApiKey.LIST_CONFIG_RESOURCES, min_version=0, max_version=1)
def list_config_resources(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """By type, then by name."""
    if not broker.authorize(context, "DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster"):
        return {"error_code": ErrorCode.cluster_authorization_failed, "config_resources": ()}
    if context.api_version == 0:
        return {"error_code": ErrorCode.none, "config_resources": ()}
    asked = frozenset(get(request, "resource_types", ())) or KNOWN
    if not asked <= KNOWN:
        return {"error_code": ErrorCode.unsupported_version, "config_resources": ()}
    brokers = [str(broker_id) for broker_id in sorted(broker.metadata.brokers)]
    names = {TOPIC: sorted(broker.metadata.topics), BROKER: brokers, BROKER_LOGGER: brokers}
    return {
        "error_code": ErrorCode.none,
        "config_resources": [
            {"resource_name": name, "resource_type": kind}
            for kind in sorted(asked)
            for name in names.get(kind, ())
        ],
    }
