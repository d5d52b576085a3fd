"""GetTelemetrySubscriptions v0 (KIP-714): which metrics a client shall push, and how often.

A request before the next push is due gets THROTTLING_QUOTA_EXCEEDED, unless the last push had an
error after which clients ask again. Needs no right, as in Kafka. With several requested metrics the
subscription id differs from Kafka's, which depends on the order of a hash set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from local_cluster.client_metrics.receiver import Peer
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.records.compress import Codec
from local_cluster.wire.api import ApiKey

if TYPE_CHECKING:
    from kio.schema.get_telemetry_subscriptions.v0.request import GetTelemetrySubscriptionsRequest

    from local_cluster.wire.responses.cluster import GetTelemetrySubscriptionsResponse

ACCEPTED: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""The preferred codec first; no compression is accepted too, but not named."""


@handles(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, min_version=0, max_version=0)
def get_telemetry_subscriptions(
    broker: BrokerServices, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Return the subscription of the client instance."""
    peer = Peer(context.connection_id, context.client_id or "", context.client_host)
    error, instance = broker.client_metrics.subscribe(peer, request.client_instance_id)
    if instance is None:
        return {
            "error_code": error,
            "client_instance_id": None,
            "subscription_id": 0,
            "push_interval": 0,
            "telemetry_max_bytes": 0,
            "delta_temporality": False,
        }
    return {
        "error_code": error,
        "client_instance_id": instance.instance_id,
        "subscription_id": instance.subscription_id,
        "accepted_compression_types": ACCEPTED,
        "push_interval": instance.wanted.interval_ms,
        "telemetry_max_bytes": broker.client_metrics.telemetry_bytes_max,
        "delta_temporality": True,
        "requested_metrics": instance.wanted.metrics,
    }
