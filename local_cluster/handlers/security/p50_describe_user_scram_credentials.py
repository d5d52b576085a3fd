"""DescribeUserScramCredentials v0 (KIP-554): there are none, as no listener has SASL.

Without names, or with null, all: none. A user that is named does not exist; one that is named
twice is DUPLICATE_RESOURCE. Credentials cannot be set: AlterUserScramCredentials is not served.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode


@handles(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, min_version=0, max_version=0)
def describe_user_scram_credentials(
    broker: BrokerServices, context: RequestContext, request: Any
) -> Reply:
    """Each user by itself."""
    if not broker.authorize(context, "DESCRIBE", "CLUSTER", "kafka-cluster"):
        return {
            "error_code": ErrorCode.cluster_authorization_failed,
            "error_message": "",
            "results": (),
        }
    asked = Counter(user.name for user in request.users or ())
    return {
        "error_code": ErrorCode.none,
        "error_message": "",
        "results": [_refusal(name, count) for name, count in asked.items()],
    }


def _refusal(name: str, count: int) -> dict[str, Any]:
    if count > 1:
        code = ErrorCode.duplicate_resource
        problem = "Cannot describe SCRAM credentials for the same user twice in a single request: "
    else:
        code = ErrorCode.resource_not_found
        problem = "Attempt to describe a user credential that does not exist: "
    return {
        "user": name,
        "error_code": code,
        "error_message": problem + name,
        "credential_infos": (),
    }
