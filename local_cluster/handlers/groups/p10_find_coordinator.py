"""FindCoordinator v0-v6.

v1 adds the key type (0 group, 1 transaction), v4 many keys at once (KIP-699), v5 knows more
errors (KIP-890), v6 the key type of share groups (2), which is INVALID_REQUEST as on any broker
without a share coordinator.

Asking creates `__consumer_offsets` or `__transaction_state` where it is missing; until the
partition has a leader the answer is COORDINATOR_NOT_AVAILABLE, which clients retry.
"""

from __future__ import annotations

from typing import Any, Final

from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import GROUP_KEY_TYPE, TRANSACTION_KEY_TYPE
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get

VERSION_WITH_MANY_KEYS: Final = 4


@handles(ApiKey.FIND_COORDINATOR, min_version=0, max_version=6)
def find_coordinator(broker: BrokerServices, context: RequestContext, request: Any) -> Reply:
    """Name the broker that coordinates each key."""
    key_type = int(get(request, "key_type", GROUP_KEY_TYPE))
    if context.api_version >= VERSION_WITH_MANY_KEYS:
        keys = request.coordinator_keys
        return {"coordinators": [_find(broker, context, key_type, key) for key in keys]}
    return _find(broker, context, key_type, request.key)


def _find(
    broker: BrokerServices, context: RequestContext, key_type: int, key: str
) -> dict[str, Any]:
    try:
        node_id, host, port = _locate(broker, context, key_type, key)
    except KafkaError as error:
        return {
            "key": key,
            "node_id": -1,
            "host": "",
            "port": -1,
            "error_code": error.code,
            "error_message": error.message or error.code.name.upper(),
        }
    return {
        "key": key,
        "node_id": node_id,
        "host": host,
        "port": port,
        "error_code": ErrorCode.none,
        "error_message": None,
    }


def _locate(
    broker: BrokerServices, context: RequestContext, key_type: int, key: str
) -> tuple[int, str, int]:
    if key_type == TRANSACTION_KEY_TYPE:
        if not broker.authorize(context, "DESCRIBE", "TRANSACTIONAL_ID", key):
            raise KafkaError(ErrorCode.transactional_id_authorization_failed)
        return broker.transactions.find_coordinator(key, context.listener)
    if key_type != GROUP_KEY_TYPE:
        raise KafkaError(ErrorCode.invalid_request, f"key type {key_type} is not served")
    if not broker.authorize(context, "DESCRIBE", "GROUP", key):
        raise KafkaError(ErrorCode.group_authorization_failed)
    return broker.groups.find_coordinator(key, context.listener)
