"""DescribeClientQuotas v0-v1 (KIP-546): the quotas of the entities that match; v1 is flexible.

The quotas are those that this broker applies. They follow ZooKeeper, so another broker's change may
take a moment to appear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.quotas.quota_filter import parse_filter
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest

    from local_cluster.wire.responses.security import DescribeClientQuotasResponse


@handles(ApiKey.DESCRIBE_CLIENT_QUOTAS, min_version=0, max_version=1)
def describe_client_quotas(
    broker: BrokerServices, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Return the quotas, or the error of the filter."""
    try:
        if not broker.authorize(context, "DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster"):
            raise KafkaError(ErrorCode.cluster_authorization_failed)
        wanted = parse_filter(request.components, strict=request.strict)
    except KafkaError as error:
        return {"error_code": error.code, "error_message": error.message, "entries": None}
    return {
        "error_code": ErrorCode.none,
        "error_message": "",
        "entries": [
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in which],
                "values": [{"key": key, "value": value} for key, value in values.items()],
            }
            for which, values in broker.quota_store.quotas.items()
            if wanted.matches(which)
        ],
    }
