"""AlterClientQuotas v0-v1 (KIP-546): set and delete quotas; v1 is flexible.

Any broker writes to ZooKeeper, as with configs. Each entity is changed wholly or not at all. As in
Kafka 4.4, of entries for the same entity the first is applied and the answer is INVALID_REQUEST.

Deviation from Kafka: an address is not looked up, so host names are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from local_cluster.handlers.registry import handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.quotas.alterations import Operation, checked_entity, has_duplicate_key, plan
from local_cluster.quotas.entity import path_of
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntryData

    from local_cluster.wire.responses.security import AlterClientQuotasResponse

ENTRIES_MAX: Final = 1_000
"""Of one request."""

Names = tuple[tuple[str, str | None], ...]
"""An entity as the request names it: (type, name) pairs."""


@handles(ApiKey.ALTER_CLIENT_QUOTAS, min_version=0, max_version=1)
def alter_client_quotas(
    broker: BrokerServices, context: RequestContext, request: AlterClientQuotasRequest
) -> Awaitable[AlterClientQuotasResponse]:
    """Change each entity by itself."""
    refused: KafkaError | None = None
    if not broker.authorize(context, "ALTER_CONFIGS", "CLUSTER", "kafka-cluster"):
        refused = KafkaError(ErrorCode.cluster_authorization_failed)
    elif len(request.entries) > ENTRIES_MAX:
        refused = KafkaError(ErrorCode.invalid_request, f"more than {ENTRIES_MAX} entities")
    return _alter_all(broker, request.entries, refused, validate_only=request.validate_only)


async def _alter_all(
    broker: BrokerServices,
    entries: Sequence[EntryData],
    refused: KafkaError | None,
    *,
    validate_only: bool,
) -> AlterClientQuotasResponse:
    results: dict[Names, KafkaError | None] = {}
    paths = []
    for entry in entries:
        names = {each.entity_type: each.entity_name for each in entry.entity}
        key = tuple(sorted(names.items(), key=lambda each: each[0]))
        try:
            if refused is not None:
                raise refused
            operations = [Operation(op.key, None if op.remove else op.value) for op in entry.ops]
            if key in results or has_duplicate_key(operations):
                raise KafkaError(ErrorCode.invalid_request, f"Ignoring duplicate entity {names}")
            which = checked_entity(names)
            path = path_of(which)
            await broker.control_plane.configs.alter_client(
                path, plan(which, operations), validate_only=validate_only
            )
            paths.append(path)
        except KafkaError as error:
            results[key] = error
        else:
            results[key] = None
    if not validate_only:
        await broker.quota_store.reload(paths)
    return {
        "entries": [
            {
                "error_code": ErrorCode.none if error is None else error.code,
                "error_message": None if error is None else error.message,
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in names],
            }
            for names, error in results.items()
        ]
    }
