"""Fetch v4-v18.

Long poll: the answer waits until `min_bytes` are there, an error is, or `max_wait_ms` is over.
Whole batches are returned, the first one being the one that contains the offset; the first batch
of the answer comes even if it is above the limits (KIP-74). v9 checks the leader epoch (KIP-320).
Readers see records below the high watermark only; with read_committed, below the last stable
offset, and are told the aborted transactions that touch what they get, by first offset.

v7 brings incremental sessions (KIP-227, sessions.py; at most
`max.incremental.fetch.session.cache.slots`, session id 0 says that there is no room), v12 the epoch
of what was read last (KIP-595: where that is no longer in this log, the answer has no records and
says where the two part), v13 topic ids (KIP-516: UNKNOWN_TOPIC_ID where no topic has the id,
INCONSISTENT_TOPIC_ID where the replica here is of another one), v15 the replica state (KIP-903),
v16 who leads instead, and where, of partitions that are refused with NOT_LEADER_OR_FOLLOWER or
FENCED_LEADER_EPOCH (KIP-951), v18 the high watermark that a follower knows (KIP-1166), which is not
looked at.

Fetches of followers (replica id >= 0) go their own way: follower_fetch.py.

Deviation from Kafka: one session holds at most 100,000 partitions.
"""

from __future__ import annotations

from typing import Any, Final

from local_cluster.handlers.data.consumer_fetch import ConsumerFetch
from local_cluster.handlers.data.follower_fetch import follower_fetch
from local_cluster.handlers.registry import Reply, handles
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.wire import fetch as codec
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import READ_COMMITTED, READ_UNCOMMITTED
from local_cluster.wire.errors import ErrorCode, KafkaError

ISOLATION_LEVELS: Final = (READ_UNCOMMITTED, READ_COMMITTED)


@handles(ApiKey.FETCH, min_version=4, max_version=18, raw=True)
def fetch(broker: BrokerServices, context: RequestContext, body: Any) -> Reply:
    """Read what is there; wait for more where the client wants to."""
    request = codec.decode_request(context.api_version, body, 0)
    if request.isolation_level not in ISOLATION_LEVELS:
        return _unknown_isolation(context, request)
    if request.replica_id >= 0:
        return follower_fetch(broker, context, request)
    try:
        session = broker.fetch_sessions.open(
            request.session_id,
            request.session_epoch,
            request.partitions,
            request.forgotten,
            uses_topic_ids=context.api_version >= codec.TOPIC_IDS_SINCE,
            now_ms=broker.clock.monotonic_ms(),
        )
    except KafkaError as error:
        return codec.encode_response(context.api_version, (), error_code=error.code)
    return ConsumerFetch(broker, context, request, session).run()


def _unknown_isolation(context: RequestContext, request: codec.FetchRequest) -> Reply:
    """What Kafka says to it, an exception inside: of every partition, from v13 of the whole."""
    code = ErrorCode.unknown_server_error
    asked = request.partitions if context.api_version < codec.TOPIC_IDS_SINCE else ()
    refused = [codec.PartitionFetched(e.topic, e.partition, code, -1, -1, -1, ()) for e in asked]
    return codec.encode_response(
        context.api_version, refused, error_code=code, session_id=request.session_id
    )
