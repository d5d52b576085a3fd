"""CLUSTER_DELTA v0 (private): the controller sends this broker what changed.

The body is a version byte and JSON (controller/model/delta_json.py), and so is the response. On any
listener but the inter-broker listener it is CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from collections.abc import Awaitable

from local_cluster.controller.model.delta_json import encode_reply
from local_cluster.handlers.broker_requests import is_from_broker
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode


@handles(ApiKey.CLUSTER_DELTA, min_version=0, max_version=0, raw=True, is_advertised=False)
def cluster_delta(
    broker: BrokerServices, context: RequestContext, body: memoryview
) -> bytes | Awaitable[bytes]:
    """Apply a delta; the response leaves when its consequences are done."""
    if not is_from_broker(broker, context):
        return encode_reply(ErrorCode.cluster_authorization_failed)
    return broker.control_plane.take_delta(bytes(body))
