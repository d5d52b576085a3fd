"""The content of Fetch requests and responses, the same for all versions.

Topics go by name up to v12 and by id from v13. The field that a version lacks is "" or None here.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from local_cluster.wire.current_leader import CurrentLeader

TOPIC_IDS_SINCE: Final = 13
NODE_ENDPOINTS_SINCE: Final = 16

NO_SESSION: Final = 0
"""The session id of a request or response without a session (KIP-227)."""
INITIAL_EPOCH: Final = 0
"""The session epoch of a full request that asks for a new session."""
FINAL_EPOCH: Final = -1
"""The session epoch of a full request without a session; it closes the one that it names."""
SESSION_EPOCH_MAX: Final = (1 << 31) - 1


def next_session_epoch(epoch: int) -> int:
    """Return the epoch of a session's next request; 1 follows the largest."""
    return 1 if epoch == SESSION_EPOCH_MAX else epoch + 1


class RecordsPart(Protocol):
    """Record bytes that are sent from elsewhere, such as a segment file."""

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
    """A partition that an incremental request removes from its session."""

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
    """The broker epoch of a replica: it changes with each restart (KIP-903)."""


class PartitionFetchResponse(NamedTuple):
    """One partition of a response; `records` is bytes, a part sent from elsewhere, or None."""

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
    """The leader, if it is another broker (KIP-951); v12 and later."""
    diverging_epoch: tuple[int, int] | None = None
    """(epoch, end offset) where the follower's log diverges (KIP-595); v12 and later."""


def records_size_bytes(records: memoryview | bytes | RecordsPart | None) -> int:
    """Return the number of record bytes of one partition."""
    if records is None:
        return 0
    return len(records) if isinstance(records, bytes | memoryview) else records.size_bytes
