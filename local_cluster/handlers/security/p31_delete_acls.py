"""DeleteAcls v1-v3 (KIP-140): what each filter matches, on any broker.

v1 has pattern types (KIP-290), v2 is flexible, v3 has user resources (KIP-48). Without an
authorizer: SECURITY_DISABLED for each.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from local_cluster.handlers.registry import handles
from local_cluster.handlers.security.acl_filters import (
    change_acls,
    changeable_acls,
    refuse_unknown_numbers,
    shown_message,
)
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.security.authorization.acl_changes import delete_acls as delete
from local_cluster.security.authorization.acl_filter import AclFilter
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import Acl
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.delete_acls.v3.request import DeleteAclsRequest

    from local_cluster.wire.responses.security import (
        DeleteAclsFilterResult,
        DeleteAclsMatchingAcl,
        DeleteAclsResponse,
    )


@handles(ApiKey.DELETE_ACLS, min_version=1, max_version=3)
def delete_acls(
    broker: BrokerServices, context: RequestContext, request: DeleteAclsRequest
) -> Awaitable[DeleteAclsResponse]:
    """Delete the ACLs; they are gone on this broker before the response leaves."""
    filters = [
        AclFilter(
            each.resource_type_filter,
            each.resource_name_filter,
            each.pattern_type_filter,
            each.principal_filter,
            each.host_filter,
            each.operation,
            each.permission_type,
        )
        for each in request.filters
    ]
    for each in filters:
        refuse_unknown_numbers(each)
    return _delete(broker, context, filters)


async def _delete(
    broker: BrokerServices, context: RequestContext, filters: Sequence[AclFilter]
) -> DeleteAclsResponse:
    results: list[KafkaError | list[tuple[Acl, KafkaError | None]]]
    try:
        store = changeable_acls(broker, context, len(filters), "filters")
        results = await change_acls(delete(store, filters))
    except KafkaError as error:
        results = [error for _ in filters]
    return {"filter_results": [_result(each) for each in results]}


def _result(result: KafkaError | list[tuple[Acl, KafkaError | None]]) -> DeleteAclsFilterResult:
    if isinstance(result, KafkaError):
        return {
            "error_code": result.code,
            "error_message": shown_message(result),
            "matching_acls": (),
        }
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "matching_acls": [_matching(acl, error) for acl, error in result],
    }


def _matching(acl: Acl, error: KafkaError | None) -> DeleteAclsMatchingAcl:
    return {
        "error_code": ErrorCode.none if error is None else error.code,
        "error_message": None if error is None else error.message,
        "resource_type": acl.resource_type,
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }
