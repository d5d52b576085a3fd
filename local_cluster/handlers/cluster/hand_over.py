"""HAND_OVER v0 (private): a broker that shuts down asks the controller to move its leaderships.

It is ControlledShutdown of Kafka's ZooKeeper mode. The body is a version byte and JSON, and so is
the response (controller/model/delta_json.py), which comes when the new leaders are written.
Inter-broker listener and controller only.
"""

from __future__ import annotations

from collections.abc import Awaitable

from local_cluster.controller.model.delta_json import decode_hand_over, encode_reply
from local_cluster.handlers.broker_requests import is_from_broker
from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError


@handles(ApiKey.HAND_OVER, min_version=0, max_version=0, raw=True, is_advertised=False)
def hand_over(
    broker: BrokerServices, context: RequestContext, body: memoryview
) -> bytes | Awaitable[bytes]:
    """Elect other leaders where there are other in-sync replicas."""
    if not is_from_broker(broker, context):
        return encode_reply(ErrorCode.cluster_authorization_failed)
    return _hand_over(broker, bytes(body))


async def _hand_over(broker: BrokerServices, payload: bytes) -> bytes:
    try:
        await broker.control_plane.controlled_shutdown(*decode_hand_over(payload))
    except ValueError as error:
        return encode_reply(ErrorCode.invalid_request, str(error))
    except KafkaError as error:
        return encode_reply(error.code, error.message)
    return encode_reply(ErrorCode.none)
