"""PushTelemetry v0 (KIP-714): the metrics of a client, for /metrics of this broker.

Errors in Kafka's order:

- INVALID_REQUEST: a reserved instance id, or a push after the terminating one
- THROTTLING_QUOTA_EXCEEDED: a push before it is due, or too many wait to be decoded
- UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE
- TELEMETRY_TOO_LARGE: the payload, compressed or decompressed
- INVALID_RECORD: the payload is broken

Needs no right, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from local_cluster.client_metrics.receiver import Peer
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.push_telemetry.v0.request import PushTelemetryRequest

    from local_cluster.wire.responses.cluster import PushTelemetryResponse


@handles(ApiKey.PUSH_TELEMETRY, min_version=0, max_version=0)
def push_telemetry(
    broker: BrokerServices, context: RequestContext, request: PushTelemetryRequest
) -> PushTelemetryResponse | Awaitable[PushTelemetryResponse]:
    """Take over a push."""
    pushed = broker.client_metrics.push(
        Peer(context.connection_id, context.client_id or "", context.client_host),
        request.client_instance_id,
        subscription_id=request.subscription_id,
        compression_type=request.compression_type,
        terminating=request.terminating,
        payload=request.metrics or b"",
    )
    return _response(pushed) if isinstance(pushed, ErrorCode) else _later(pushed)


async def _later(pushed: Awaitable[ErrorCode]) -> PushTelemetryResponse:
    return _response(await pushed)


def _response(error: ErrorCode) -> PushTelemetryResponse:
    return {"error_code": error}
