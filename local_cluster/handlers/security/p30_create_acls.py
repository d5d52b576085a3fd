"""CreateAcls v1-v3 (KIP-140): each ACL by itself, on any broker.

v1 has pattern types (KIP-290), v2 is flexible, v3 has user resources (KIP-48). Without an
authorizer: SECURITY_DISABLED for each.

Deviations from Kafka: INVALID_REQUEST for a resource that ZooKeeper cannot hold, such as a group
with a "/"; CIDR hosts (KIP-1276) need no metadata version.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from local_cluster.handlers.registry import handles
from local_cluster.handlers.security.acl_filters import (
    UNKNOWN,
    change_acls,
    changeable_acls,
    shown_message,
)
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.security.authorization.acl_changes import create_acls as create
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import Acl
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError

if TYPE_CHECKING:
    from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest

    from local_cluster.wire.responses.security import AclCreationResult, CreateAclsResponse


@handles(ApiKey.CREATE_ACLS, min_version=1, max_version=3)
def create_acls(
    broker: BrokerServices, context: RequestContext, request: CreateAclsRequest
) -> Awaitable[CreateAclsResponse]:
    """Store the ACLs; they hold on this broker before the response leaves."""
    acls = [_acl_of(creation) for creation in request.creations]
    for acl in acls:
        if UNKNOWN in (acl.resource_type, acl.pattern_type, acl.operation, acl.permission):
            raise PeerError(f"CreateAcls with an unknown element: {acl}")
    return _create(broker, context, acls)


async def _create(
    broker: BrokerServices, context: RequestContext, acls: Sequence[Acl]
) -> CreateAclsResponse:
    try:
        store = changeable_acls(broker, context, len(acls), "ACLs")
        results = await change_acls(create(store, acls))
    except KafkaError as error:
        results = [error for _ in acls]
    return {"results": [_result(each) for each in results]}


def _acl_of(creation: AclCreation) -> Acl:
    return Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _result(error: KafkaError | None) -> AclCreationResult:
    if error is None:
        return {"error_code": ErrorCode.none, "error_message": None}
    return {"error_code": error.code, "error_message": shown_message(error)}
