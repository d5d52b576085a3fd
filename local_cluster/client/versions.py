"""The versions of requests that this client speaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

CLIENT_VERSIONS_MAX: Final[dict[int, int]] = {
    ApiKey.PRODUCE: 11,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 11,
    ApiKey.METADATA: 13,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 7,
    ApiKey.FIND_COORDINATOR: 3,
    # Up to v8 a static leader that returns does not learn that it leads, and rejoins if it knows
    # more than was assigned. From v9 on it learns it, with skip_assignment (KIP-814). Code that
    # reads that must come first: otherwise the leader takes its own computation for the group's
    # assignment and never rejoins.
    ApiKey.JOIN_GROUP: 7,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 4,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.DESCRIBE_GROUPS: 6,
    ApiKey.LIST_GROUPS: 4,
    ApiKey.SASL_HANDSHAKE: 1,
    ApiKey.API_VERSIONS: 3,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 5,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 5,
    ApiKey.ADD_OFFSETS_TO_TXN: 4,
    ApiKey.END_TXN: 5,
    ApiKey.WRITE_TXN_MARKERS: 2,
    ApiKey.TXN_OFFSET_COMMIT: 5,
    ApiKey.DESCRIBE_ACLS: 3,
    ApiKey.CREATE_ACLS: 3,
    ApiKey.DELETE_ACLS: 3,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ALTER_CONFIGS: 2,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.SASL_AUTHENTICATE: 2,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 1,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.OFFSET_DELETE: 0,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: 1,
    ApiKey.ALTER_CLIENT_QUOTAS: 1,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.DESCRIBE_CLUSTER: 2,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
    ApiKey.LIST_TRANSACTIONS: 2,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
}
"""The newest version of each API whose fields this client knows. APIs that are not here: 0."""


def choose_version(
    offered: Mapping[int, tuple[int, int]], api: ApiKey, version_max: int | None = None
) -> int:
    """Return the newest version that broker and caller know.

    `offered` holds the broker's (lowest, highest) version by API. `version_max` is the newest
    version that the caller knows, by default that of CLIENT_VERSIONS_MAX. Raises
    KafkaError(unsupported_version) if there is none.
    """
    if api not in offered:
        raise KafkaError(ErrorCode.unsupported_version, f"the broker has no {api.name}")
    low, high = offered[api]
    known = CLIENT_VERSIONS_MAX.get(api, 0) if version_max is None else version_max
    version = min(high, known)
    if version < low:
        raise KafkaError(
            ErrorCode.unsupported_version, f"{api.name} v{low}-v{high} is too new for v{known}"
        )
    return version
