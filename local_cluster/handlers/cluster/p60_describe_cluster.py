"""DescribeCluster v0-v2 (KIP-700).

Version notes: v1 the type of endpoint; only brokers (1) are asked here, controllers (2) are
MISMATCHED_ENDPOINT_TYPE, any other type is UNSUPPORTED_ENDPOINT_TYPE; v2 fenced brokers (KIP-1073),
of which there are none with ZooKeeper.
"""

from __future__ import annotations

from typing import Any, Final

from local_cluster.controller.model.cluster_image import NO_CONTROLLER
from local_cluster.handlers.authorized_operations import NOT_ASKED, cluster_operations
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

BROKERS: Final = 1
CONTROLLERS: Final = 2


@handles(ApiKey.DESCRIBE_CLUSTER, min_version=0, max_version=2)
def describe_cluster(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Brokers that can be reached by this listener, and the controller."""
    cache = broker.metadata
    endpoint_type = messages.get(request, "endpoint_type", BROKERS)
    answer: dict[str, Any] = {
        "error_code": ErrorCode.none,
        "error_message": None,
        "endpoint_type": BROKERS,
        "cluster_id": "",
        "controller_id": NO_CONTROLLER,
        "brokers": (),
        "cluster_authorized_operations": NOT_ASKED,
    }
    if endpoint_type != BROKERS:
        return answer | _wrong_endpoint(endpoint_type)
    if not broker.authorize(context, "DESCRIBE", "CLUSTER", "kafka-cluster"):
        return answer | {"error_code": ErrorCode.cluster_authorization_failed}
    answer["cluster_id"] = cache.cluster_id or ""
    if request.include_cluster_authorized_operations:
        answer["cluster_authorized_operations"] = cluster_operations(broker, context)
    reachable = [
        {"broker_id": broker_id, "host": host, "port": port, "rack": each.rack, "is_fenced": False}
        for broker_id, each in sorted(cache.brokers.items())
        for host, port in [each.listeners.get(context.listener, ("", 0))]
        if port
    ]
    known = cache.controller_id in {each["broker_id"] for each in reachable}
    answer["controller_id"] = cache.controller_id if known else NO_CONTROLLER
    return answer | {"brokers": reachable}


def _wrong_endpoint(endpoint_type: int) -> dict[str, Any]:
    if endpoint_type == CONTROLLERS:
        return {
            "error_code": ErrorCode.mismatched_endpoint_type,
            "error_message": "The request was sent to an endpoint of type BROKER, but we wanted an "
            "endpoint of type CONTROLLER",
        }
    return {
        "error_code": ErrorCode.unsupported_endpoint_type,
        "error_message": f"Unsupported endpoint type {endpoint_type}",
    }
