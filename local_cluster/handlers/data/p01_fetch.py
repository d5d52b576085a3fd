"""Fetch v4-v18.

Long poll: the response waits until `min_bytes` of records are there, or an error, or for
`max_wait_ms`. It has whole batches; the first is the one that contains the offset, and it is sent
even if it is larger than the limits (KIP-74). Readers see records below the high watermark, with
read_committed below the last stable offset, together with the aborted transactions of these
records, by first offset. Version notes:

- v7: incremental sessions (KIP-227, fetch_sessions/session_cache.py), at most
  `max.incremental.fetch.session.cache.slots`; without a free slot the session id is 0.
- v9: the leader epoch is checked (KIP-320).
- v12: the epoch of the last fetched record (KIP-595). If that record is not in this log, the
  response has no records but the epoch and offset where the logs diverge.
- v13: topic ids (KIP-516). UNKNOWN_TOPIC_ID: no topic has the id; INCONSISTENT_TOPIC_ID: the
  replica here has another one.
- v15: the replica state (KIP-903).
- v16: the current leader and its endpoint, for NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH
  (KIP-951).
- v18: the high watermark that a follower knows (KIP-1166), which is ignored.

Fetches of followers (replica id >= 0) are in follower_fetch.py.

Deviation from Kafka: one session holds at most 100,000 partitions.
"""

from __future__ import annotations

from typing import Final

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
def fetch(broker: BrokerServices, context: RequestContext, body: memoryview) -> Reply:
    """Read the partitions; wait if there is less than the client wants."""
    request = codec.decode_request(context.api_version, body, 0)
    if request.isolation_level not in ISOLATION_LEVELS:
        return _refuse_isolation_level(context, request)
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


def _refuse_isolation_level(context: RequestContext, request: codec.FetchRequest) -> Reply:
    """Respond as Kafka, which fails with an exception: UNKNOWN_SERVER_ERROR, before v13 also for
    each partition."""
    code = ErrorCode.unknown_server_error
    entries = request.partitions if context.api_version < codec.TOPIC_IDS_SINCE else ()
    refused = [
        codec.PartitionFetchResponse(e.topic, e.partition, code, -1, -1, -1, ()) for e in entries
    ]
    return codec.encode_response(
        context.api_version, refused, error_code=code, session_id=request.session_id
    )
