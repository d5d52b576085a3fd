"""CreateAcls v1-v3 (KIP-140): SECURITY_DISABLED for each, as Kafka without an authorizer.

v1 has pattern types (KIP-290), v2 is flexible, v3 has user resources (KIP-48).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.create_acls.v3.request import CreateAclsRequest

    from local_cluster.wire.responses.security import AclCreationResult, CreateAclsResponse


@handles(ApiKey.CREATE_ACLS, min_version=1, max_version=3)
def create_acls(
    broker: BrokerServices, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    """Refuse each ACL."""
    result: AclCreationResult
    if broker.authorize(context, "ALTER", "CLUSTER", "kafka-cluster"):
        message = "No Authorizer is configured."
        result = {"error_code": ErrorCode.security_disabled, "error_message": message}
    else:
        result = {"error_code": ErrorCode.cluster_authorization_failed, "error_message": None}
    return {"results": [result for _ in request.creations]}
