"""DeleteAcls v1-v3 (KIP-140): SECURITY_DISABLED for each, as Kafka without an authorizer.

v1 has pattern types (KIP-290), v2 is flexible, v3 has user resources (KIP-48).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.delete_acls.v3.request import DeleteAclsRequest

    from local_cluster.wire.responses.security import DeleteAclsFilterResult, DeleteAclsResponse


@handles(ApiKey.DELETE_ACLS, min_version=1, max_version=3)
def delete_acls(
    broker: BrokerServices, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    """Refuse each filter."""
    code, message = ErrorCode.cluster_authorization_failed, None
    if broker.authorize(context, "ALTER", "CLUSTER", "kafka-cluster"):
        code, message = ErrorCode.security_disabled, "No Authorizer is configured."
    result: DeleteAclsFilterResult = {
        "error_code": code,
        "error_message": message,
        "matching_acls": (),
    }
    return {"filter_results": [result for _ in request.filters]}
