"""Fetch v4-v18 by hand, both sides: record bytes are never copied into the response.

Schema: FetchRequest.json and FetchResponse.json of Apache Kafka (KIP-74, KIP-98, KIP-227,
KIP-320, KIP-392, KIP-516, KIP-595, KIP-903, KIP-951). The high watermark that a follower may send
in v18 (KIP-1166, a tagged field) is skipped.

    model      the content of both, the same for all versions
    request    the request, encoded and decoded
    response   the response, encoded as parts and decoded
"""

from local_cluster.wire.fetch.model import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    NODE_ENDPOINTS_SINCE,
    SESSION_EPOCH_MAX,
    TOPIC_IDS_SINCE,
    FetchPartition,
    FetchRequest,
    ForgottenPartition,
    PartitionFetchResponse,
    RecordsPart,
    next_session_epoch,
    records_size_bytes,
)
from local_cluster.wire.fetch.request import decode_request, encode_request
from local_cluster.wire.fetch.response import decode_response, encode_response

__all__ = [
    "FINAL_EPOCH",
    "INITIAL_EPOCH",
    "NODE_ENDPOINTS_SINCE",
    "NO_SESSION",
    "SESSION_EPOCH_MAX",
    "TOPIC_IDS_SINCE",
    "FetchPartition",
    "FetchRequest",
    "ForgottenPartition",
    "PartitionFetchResponse",
    "RecordsPart",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
    "next_session_epoch",
    "records_size_bytes",
]
