"""DescribeAcls v1-v3 (KIP-140): SECURITY_DISABLED, as Kafka without an authorizer.

v1 has pattern types (KIP-290), v2 is flexible, v3 has user resources (KIP-48). The filter is
ignored, as in Kafka without an authorizer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.describe_acls.v3.request import DescribeAclsRequest

    from local_cluster.wire.responses.security import DescribeAclsResponse


@handles(ApiKey.DESCRIBE_ACLS, min_version=1, max_version=3)
def describe_acls(
    broker: BrokerServices, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    """Refuse the request."""
    if not broker.authorize(context, "DESCRIBE", "CLUSTER", "kafka-cluster"):
        return {
            "error_code": ErrorCode.cluster_authorization_failed,
            "error_message": None,
            "resources": (),
        }
    return {
        "error_code": ErrorCode.security_disabled,
        "error_message": "No Authorizer is configured on the broker",
        "resources": (),
    }
