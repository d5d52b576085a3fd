"""DescribeUserScramCredentials v0 (KIP-554): mechanisms and iterations of users, never their keys.

No names, or null, ask for all users. An absent user is RESOURCE_NOT_FOUND; one that is named twice
is DUPLICATE_RESOURCE. Users of a listener's own settings are not described.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import SCRAM_MECHANISMS
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.describe_user_scram_credentials.v0.request import (
        DescribeUserScramCredentialsRequest,
    )

    from local_cluster.wire.responses.security import (
        DescribeUserScramCredentialsResponse,
        DescribeUserScramCredentialsResult,
    )


@handles(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, min_version=0, max_version=0)
def describe_user_scram_credentials(
    broker: BrokerServices, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Describe each user by itself."""
    if not broker.authorize(context, "DESCRIBE", "CLUSTER", "kafka-cluster"):
        return {
            "error_code": ErrorCode.cluster_authorization_failed,
            "error_message": "",
            "results": (),
        }
    counts = Counter(user.name for user in request.users or ()) or dict.fromkeys(
        sorted(broker.scram_users.users), 1
    )
    return {
        "error_code": ErrorCode.none,
        "error_message": "",
        "results": [_describe(broker, name, count) for name, count in counts.items()],
    }


def _describe(broker: BrokerServices, name: str, count: int) -> DescribeUserScramCredentialsResult:
    credentials = broker.scram_users.users.get(name)
    if count > 1:
        code = ErrorCode.duplicate_resource
        problem = "Cannot describe SCRAM credentials for the same user twice in a single request: "
    elif credentials is None:
        code = ErrorCode.resource_not_found
        problem = "Attempt to describe a user credential that does not exist: "
    else:
        return {
            "user": name,
            "error_code": ErrorCode.none,
            "error_message": None,
            "credential_infos": [
                {"mechanism": number, "iterations": credentials[mechanism].iterations}
                for number, mechanism in SCRAM_MECHANISMS.items()
                if mechanism in credentials
            ],
        }
    return {
        "user": name,
        "error_code": code,
        "error_message": problem + name,
        "credential_infos": (),
    }
