"""DescribeClientQuotas v0-v1 (KIP-546): no quotas are set, so none match; v1 is flexible.

The filter is checked as Kafka checks it. Quotas cannot be set: AlterClientQuotas is not served.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

IP: Final = "ip"
ENTITY_TYPES: Final = ("user", "client-id", IP)


@handles(ApiKey.DESCRIBE_CLIENT_QUOTAS, min_version=0, max_version=1)
def describe_client_quotas(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Nothing, or what is wrong with the filter."""
    try:
        if not broker.authorize(context, "DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster"):
            raise KafkaError(ErrorCode.cluster_authorization_failed)
        _check(request.components)
    except KafkaError as error:
        return {"error_code": error.code, "error_message": error.message, "entries": None}
    return {"error_code": ErrorCode.none, "error_message": "", "entries": ()}


def _check(components: Sequence[Any]) -> None:
    """Raises KafkaError for a filter that means nothing."""
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise KafkaError(ErrorCode.invalid_request, "Invalid empty entity type.")
        if kind in seen:
            raise KafkaError(
                ErrorCode.invalid_request,
                f"Entity type {kind} cannot appear more than once in the filter.",
            )
        if kind not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.unsupported_version, f"Unsupported entity type {kind}")
        seen.add(kind)
        _check_match(component)
    if IP in seen and len(seen) > 1:
        raise KafkaError(
            ErrorCode.invalid_request,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        )


def _check_match(component: Any) -> None:
    """A component matches one entity by name (0), the default one (1), or any that is set (2)."""
    match component.match_type:
        case 0 if component.match is None:
            problem = "Request specified MATCH_TYPE_EXACT, but set match string to null."
        case 1 if component.match is not None:
            problem = "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."
        case 2 if component.match is not None:
            problem = "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
        case 0 | 1 | 2:
            return
        case other:
            problem = f"Unknown match type {other}"
    raise KafkaError(ErrorCode.invalid_request, problem)
