"""CreateAcls v1-v3 (KIP-140): SECURITY_DISABLED for each, as Kafka without an authorizer.

v1 has pattern types (KIP-290), v2 is flexible, v3 knows user resources (KIP-48).
"""

from __future__ import annotations

from typing import Any

from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode


@handles(ApiKey.CREATE_ACLS, min_version=1, max_version=3)
def create_acls(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Nothing is created."""
    if broker.authorize(context, "ALTER", "CLUSTER", "kafka-cluster"):
        error, message = ErrorCode.security_disabled, "No Authorizer is configured."
    else:
        error, message = ErrorCode.cluster_authorization_failed, None
    answer = {"error_code": error, "error_message": message}
    return {"results": [answer for _ in request.creations]}
