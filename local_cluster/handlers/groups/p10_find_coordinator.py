"""FindCoordinator v0-v6.

v1 adds the key type (0 group, 1 transaction), v4 many keys at once (KIP-699), v5 more errors
(KIP-890). v6 adds the key type of share groups (2), which is INVALID_REQUEST as on any broker
without a share coordinator.

A request creates `__consumer_offsets` or `__transaction_state` if it is missing. Until the
partition has a leader the error is COORDINATOR_NOT_AVAILABLE, which clients retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import GROUP_KEY_TYPE, TRANSACTION_KEY_TYPE
from local_cluster.wire.errors import DEFAULT_MESSAGES, ErrorCode, KafkaError
from local_cluster.wire.messages import get

if TYPE_CHECKING:
    from kio.schema.find_coordinator.v3 import request as v3
    from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

    from local_cluster.wire.responses.groups import Coordinator, FindCoordinatorResponse

MANY_KEYS_SINCE: Final = 4
SHARE_KEY_TYPE: Final = 2


class _Found(NamedTuple):
    node_id: int = -1
    host: str = ""
    port: int = -1
    error_code: ErrorCode = ErrorCode.none
    error_message: str = ""


@handles(ApiKey.FIND_COORDINATOR, min_version=0, max_version=6)
def find_coordinator(
    broker: BrokerServices, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Return the broker that coordinates each key."""
    key_type = get(request, "key_type", GROUP_KEY_TYPE)
    if context.api_version >= MANY_KEYS_SINCE:
        keys = request.coordinator_keys
        return {"coordinators": [_coordinator(broker, context, key_type, key) for key in keys]}
    found = _find(broker, context, key_type, cast("v3.FindCoordinatorRequest", request).key)
    return {
        "node_id": found.node_id,
        "host": found.host,
        "port": found.port,
        "error_code": found.error_code,
        "error_message": DEFAULT_MESSAGES.get(found.error_code, found.error_code.name.upper()),
    }


def _coordinator(
    broker: BrokerServices, context: RequestContext, key_type: int, key: str
) -> Coordinator:
    found = _find(broker, context, key_type, key)
    return {
        "key": key,
        "node_id": found.node_id,
        "host": found.host,
        "port": found.port,
        "error_code": found.error_code,
        "error_message": found.error_message,
    }


def _find(broker: BrokerServices, context: RequestContext, key_type: int, key: str) -> _Found:
    try:
        return _Found(*_locate(broker, context, key_type, key))
    except KafkaError as error:
        return _Found(error_code=error.code, error_message=error.message)


def _locate(
    broker: BrokerServices, context: RequestContext, key_type: int, key: str
) -> tuple[int, str, int]:
    """Return (broker id, host, port). Raises KafkaError."""
    if key_type == TRANSACTION_KEY_TYPE:
        if not broker.authorize(context, "DESCRIBE", "TRANSACTIONAL_ID", key):
            raise KafkaError(ErrorCode.transactional_id_authorization_failed)
        return broker.transactions.find_coordinator(key, context.listener)
    if key_type == SHARE_KEY_TYPE:
        raise KafkaError(ErrorCode.invalid_request)
    if key_type != GROUP_KEY_TYPE:
        message = DEFAULT_MESSAGES[ErrorCode.invalid_request]
        raise KafkaError(ErrorCode.invalid_request, message)
    if not broker.authorize(context, "DESCRIBE", "GROUP", key):
        raise KafkaError(ErrorCode.group_authorization_failed)
    return broker.groups.find_coordinator(key, context.listener)
