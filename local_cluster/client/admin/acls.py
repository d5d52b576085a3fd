"""Describes, creates and deletes the ACLs of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from local_cluster.client.calls import ClusterCalls
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import Acl, AclOperation, PatternType, Permission, ResourceType
from local_cluster.wire.errors import KafkaError

ACLS_PER_REQUEST_MAX: Final = 1_000


async def describe_acls(
    client: ClusterCalls, resource_type: int = ResourceType.ANY, *, node_id: int | None = None
) -> set[Acl]:
    """Return every ACL on resources of a type, as a broker (None: any) knows them.

    Raises KafkaError: security_disabled if the cluster has no authorizer.
    """
    response = await client.call(
        ApiKey.DESCRIBE_ACLS,
        {
            "resource_type_filter": int(resource_type),
            "resource_name_filter": None,
            "pattern_type_filter": int(PatternType.ANY),
            "principal_filter": None,
            "host_filter": None,
            "operation": int(AclOperation.ANY),
            "permission_type": int(Permission.ANY),
        },
        node_id=node_id,
    )
    if response.error_code:
        raise KafkaError(response.error_code, response.error_message or "DescribeAcls")
    return {
        Acl(
            int(resource.resource_type),
            resource.resource_name,
            int(resource.pattern_type),
            entry.principal,
            entry.host,
            int(entry.operation),
            int(entry.permission_type),
        )
        for resource in response.resources
        for entry in resource.acls
    }


async def create_acls(client: ClusterCalls, acls: Sequence[Acl]) -> dict[Acl, KafkaError | None]:
    """Create ACLs. Return the error of each, None after a success. Existing ones are no error.

    Raises KafkaError if a whole request fails.
    """
    results: dict[Acl, KafkaError | None] = {}
    for start in range(0, len(acls), ACLS_PER_REQUEST_MAX):
        chunk = acls[start : start + ACLS_PER_REQUEST_MAX]
        response = await client.call_controller(
            ApiKey.CREATE_ACLS,
            {
                "creations": [
                    {
                        "resource_type": int(acl.resource_type),
                        "resource_name": acl.resource_name,
                        "resource_pattern_type": int(acl.pattern_type),
                        "principal": acl.principal,
                        "host": acl.host,
                        "operation": int(acl.operation),
                        "permission_type": int(acl.permission),
                    }
                    for acl in chunk
                ]
            },
        )
        for acl, entry in zip(chunk, response.results, strict=True):
            results[acl] = _error(entry)
    return results


async def delete_acls(client: ClusterCalls, acls: Sequence[Acl]) -> dict[Acl, KafkaError | None]:
    """Delete exactly these ACLs. Return the error of each, None after a success.

    Raises KafkaError if a whole request fails.
    """
    results: dict[Acl, KafkaError | None] = {}
    for start in range(0, len(acls), ACLS_PER_REQUEST_MAX):
        chunk = acls[start : start + ACLS_PER_REQUEST_MAX]
        response = await client.call_controller(
            ApiKey.DELETE_ACLS,
            {
                "filters": [
                    {
                        "resource_type_filter": int(acl.resource_type),
                        "resource_name_filter": acl.resource_name,
                        "pattern_type_filter": int(acl.pattern_type),
                        "principal_filter": acl.principal,
                        "host_filter": acl.host,
                        "operation": int(acl.operation),
                        "permission_type": int(acl.permission),
                    }
                    for acl in chunk
                ]
            },
        )
        for acl, entry in zip(chunk, response.filter_results, strict=True):
            failed = next((found for found in entry.matching_acls if found.error_code), entry)
            results[acl] = _error(failed)
    return results


def _error(entry: object) -> KafkaError | None:
    code = getattr(entry, "error_code", 0)
    return KafkaError(code, getattr(entry, "error_message", None) or "") if code else None
