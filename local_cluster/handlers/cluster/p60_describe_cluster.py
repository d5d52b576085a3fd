"""DescribeCluster v0-v2 (KIP-700).

v1 has the type of endpoint. Only brokers (1) are described: controllers (2) are
MISMATCHED_ENDPOINT_TYPE, any other type is UNSUPPORTED_ENDPOINT_TYPE. v2 has fenced brokers
(KIP-1073), which do not exist with ZooKeeper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from local_cluster.controller.model.cluster_image import NO_CONTROLLER
from local_cluster.handlers.authorized_operations import cluster_operations
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import OPERATIONS_NOT_REQUESTED
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.describe_cluster.v2.request import DescribeClusterRequest

    from local_cluster.wire.responses.cluster import DescribeClusterBroker, DescribeClusterResponse

BROKERS: Final = 1
CONTROLLERS: Final = 2


@handles(ApiKey.DESCRIBE_CLUSTER, min_version=0, max_version=2)
def describe_cluster(
    broker: BrokerServices, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Return the brokers that are reachable on this listener, and the controller."""
    endpoint_type = messages.get(request, "endpoint_type", BROKERS)
    if endpoint_type == CONTROLLERS:
        return _refuse(
            ErrorCode.mismatched_endpoint_type,
            "The request was sent to an endpoint of type BROKER, but we wanted an "
            "endpoint of type CONTROLLER",
        )
    if endpoint_type != BROKERS:
        message = f"Unsupported endpoint type {endpoint_type}"
        return _refuse(ErrorCode.unsupported_endpoint_type, message)
    cache = broker.metadata
    reachable: list[DescribeClusterBroker] = [
        {"broker_id": broker_id, "host": host, "port": port, "rack": each.rack, "is_fenced": False}
        for broker_id, each in sorted(cache.brokers.items())
        for host, port in [each.listeners.get(context.listener, ("", 0))]
        if port
    ]
    known = cache.controller_id in {each["broker_id"] for each in reachable}
    operations = OPERATIONS_NOT_REQUESTED
    if request.include_cluster_authorized_operations:
        operations = cluster_operations(broker, context)
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "endpoint_type": BROKERS,
        "cluster_id": cache.cluster_id or "",
        "controller_id": cache.controller_id if known else NO_CONTROLLER,
        "brokers": reachable,
        "cluster_authorized_operations": operations,
    }


def _refuse(code: ErrorCode, message: str | None) -> DescribeClusterResponse:
    return {
        "error_code": code,
        "error_message": message,
        "endpoint_type": BROKERS,
        "cluster_id": "",
        "controller_id": NO_CONTROLLER,
        "brokers": (),
        "cluster_authorized_operations": OPERATIONS_NOT_REQUESTED,
    }
