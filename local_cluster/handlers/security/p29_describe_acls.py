"""DescribeAcls v1-v3 (KIP-140), from the image that this broker decides by.

v1 has pattern types (KIP-290), v2 is flexible, v3 has user resources (KIP-48). Without an
authorizer: SECURITY_DISABLED, whatever the filter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cluster.handlers.registry import handles
from local_cluster.handlers.security.acl_filters import refuse_unknown_numbers
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.security.authorization.acl_filter import AclFilter, matching
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.describe_acls.v3.request import DescribeAclsRequest

    from local_cluster.wire.responses.security import (
        AclDescription,
        DescribeAclsResource,
        DescribeAclsResponse,
    )


@handles(ApiKey.DESCRIBE_ACLS, min_version=1, max_version=3)
def describe_acls(
    broker: BrokerServices, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    """Return the ACLs that match the filter."""
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    refuse_unknown_numbers(wanted)
    if not broker.authorize(context, "DESCRIBE", "CLUSTER", "kafka-cluster"):
        return _refuse(ErrorCode.cluster_authorization_failed, None)
    if broker.acls is None:
        return _refuse(ErrorCode.security_disabled, "No Authorizer is configured on the broker")
    assert broker.acls.image is not None, "the broker serves nobody before it has read the ACLs"
    found: dict[tuple[int, int, str], list[AclDescription]] = {}
    for acl in matching(broker.acls.image, wanted):
        key = (acl.resource_type, acl.pattern_type, acl.resource_name)
        found.setdefault(key, []).append(
            {
                "principal": acl.principal,
                "host": acl.host,
                "operation": acl.operation,
                "permission_type": acl.permission,
            }
        )
    resources: list[DescribeAclsResource] = [
        {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": acls}
        for (kind, pattern, name), acls in sorted(found.items())
    ]
    return {"error_code": ErrorCode.none, "error_message": None, "resources": resources}


def _refuse(code: ErrorCode, message: str | None) -> DescribeAclsResponse:
    return {"error_code": code, "error_message": message, "resources": ()}
