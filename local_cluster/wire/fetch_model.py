"""What Fetch requests and answers hold, the same for all versions.

Topics go by name up to v12 and by id from v13 on: what the version does not have is "" or None.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from local_cluster.wire.current_leader import CurrentLeader

TOPIC_IDS_SINCE: Final = 13
NODE_ENDPOINTS_SINCE: Final = 16

NO_SESSION: Final = 0
"""The session id of a request or an answer without a session (KIP-227)."""
INITIAL_EPOCH: Final = 0
"""The session epoch of a request that names everything and wants a session."""
FINAL_EPOCH: Final = -1
"""The session epoch of a request that names everything and wants none."""
SESSION_EPOCH_MAX: Final = (1 << 31) - 1


def next_session_epoch(epoch: int) -> int:
    """What follows a session epoch, past the largest one 1 again."""
    return 1 if epoch == SESSION_EPOCH_MAX else epoch + 1


class RecordsPart(Protocol):
    """Record bytes that are sent from somewhere else, such as a segment file."""

    @property
    def size_bytes(self) -> int: ...


class FetchPartition(NamedTuple):
    """One partition of a request."""

    topic: str
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_bytes_max: int
    topic_id: uuid.UUID | None = None


class ForgottenPartition(NamedTuple):
    """A partition that an incremental request takes out of its session."""

    topic: str
    partition: int
    topic_id: uuid.UUID | None = None


class FetchRequest(NamedTuple):
    """A Fetch request; partitions are flat, in wire order."""

    replica_id: int
    wait_ms_max: int
    bytes_min: int
    bytes_max: int
    isolation_level: int
    session_id: int
    session_epoch: int
    partitions: Sequence[FetchPartition]
    forgotten: Sequence[ForgottenPartition]
    rack_id: str
    replica_epoch: int = -1
    """Broker epoch of a replica, which tells one run of it from the next (KIP-903)."""


class PartitionFetched(NamedTuple):
    """One partition of an answer; `records` is bytes, a part sent from elsewhere, or None."""

    topic: str
    partition: int
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    records: memoryview | bytes | RecordsPart | None = None
    topic_id: uuid.UUID | None = None
    current_leader: CurrentLeader | None = None
    """Who leads instead (KIP-951); v12 and later."""
    diverging_epoch: tuple[int, int] | None = None
    """(epoch, end offset) from where a follower's log differs (KIP-595); v12 and later."""


def records_size_bytes(records: memoryview | bytes | RecordsPart | None) -> int:
    """How many record bytes a partition's answer has."""
    if records is None:
        return 0
    return len(records) if isinstance(records, bytes | memoryview) else records.size_bytes
