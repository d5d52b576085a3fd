"""DescribeClientQuotas v0-v1 (KIP-546): no quotas are set, so none match; v1 is flexible.

The filter is checked as Kafka checks it. Quotas cannot be set: AlterClientQuotas is not served.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.describe_client_quotas.v1.request import (
        ComponentData,
        DescribeClientQuotasRequest,
    )

    from local_cluster.wire.responses.security import DescribeClientQuotasResponse

IP: Final = "ip"
ENTITY_TYPES: Final = ("user", "client-id", IP)
MATCH_EXACT: Final = 0
MATCH_DEFAULT: Final = 1
MATCH_SPECIFIED: Final = 2


@handles(ApiKey.DESCRIBE_CLIENT_QUOTAS, min_version=0, max_version=1)
def describe_client_quotas(
    broker: BrokerServices, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Return no quotas, or the error of the filter."""
    try:
        if not broker.authorize(context, "DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster"):
            raise KafkaError(ErrorCode.cluster_authorization_failed)
        _check(request.components)
    except KafkaError as error:
        return {"error_code": error.code, "error_message": error.message, "entries": None}
    return {"error_code": ErrorCode.none, "error_message": "", "entries": ()}


def _check(components: Sequence[ComponentData]) -> None:
    """Raise KafkaError for an invalid filter."""
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
        problem = _match_problem(component)
        if problem is not None:
            raise KafkaError(ErrorCode.invalid_request, problem)
    if IP in seen and len(seen) > 1:
        raise KafkaError(
            ErrorCode.invalid_request,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        )


def _match_problem(component: ComponentData) -> str | None:
    """Return why a component is invalid: exact needs a match string, the others have none."""
    kind, has_match = component.match_type, component.match is not None
    if kind not in (MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED):
        return f"Unknown match type {kind}"
    if kind == MATCH_EXACT and not has_match:
        return "Request specified MATCH_TYPE_EXACT, but set match string to null."
    if kind == MATCH_DEFAULT and has_match:
        return "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."
    if kind == MATCH_SPECIFIED and has_match:
        return "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
    return None
