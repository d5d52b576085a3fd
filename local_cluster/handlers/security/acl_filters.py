"""What the APIs of ACLs share: numbers that no request may have, who may change, the time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from local_cluster.controller.zk.coordination import CoordinationUnavailable
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.security.authorization.acl_filter import AclFilter
from local_cluster.security.authorization.acl_store import AclStore
from local_cluster.wire.errors import ErrorCode, KafkaError, PeerError

UNKNOWN: Final = 0
"""The number of UNKNOWN in each enumeration. Kafka closes the connection of who sends it."""
ACLS_MAX: Final = 10_000
"""ACLs or filters of one request, as Kafka's MAX_RECORDS_PER_USER_OP."""
CHANGE_MS_MAX: Final = 30_000

_Result = TypeVar("_Result")


def refuse_unknown_numbers(wanted: AclFilter) -> None:
    """Raise PeerError for a filter with a number that is UNKNOWN by itself."""
    numbers = (wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission)
    if UNKNOWN in numbers:
        raise PeerError(f"a filter of ACLs with an unknown element: {wanted}")


def changeable_acls(
    broker: BrokerServices, context: RequestContext, count: int, what: str
) -> AclStore:
    """Return the ACLs that a request with `count` of `what` may change. Raises KafkaError."""
    if not broker.authorize(context, "ALTER", "CLUSTER", "kafka-cluster"):
        raise KafkaError(ErrorCode.cluster_authorization_failed)
    if broker.acls is None:
        raise KafkaError(ErrorCode.security_disabled, "No Authorizer is configured.")
    if count > ACLS_MAX:
        message = f"at most {ACLS_MAX} {what} in one request, not {count}"
        raise KafkaError(ErrorCode.policy_violation, message)
    return broker.acls


def shown_message(error: KafkaError) -> str | None:
    """Return the message of a refusal in a response. Kafka gives none where a right is missing."""
    return None if error.code == ErrorCode.cluster_authorization_failed else error.message


async def change_acls(change: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a change of ACLs. Raises KafkaError(request_timed_out): it may have happened."""
    try:
        async with asyncio.timeout(CHANGE_MS_MAX / 1000):
            return await change
    except (TimeoutError, CoordinationUnavailable) as error:
        raise KafkaError(
            ErrorCode.request_timed_out, f"ZooKeeper did not answer: {error}"
        ) from error
