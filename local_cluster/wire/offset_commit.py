"""OffsetCommit v2-v10 by hand, the broker's side: consumers send it all the time.

Schema: OffsetCommitRequest.json and OffsetCommitResponse.json of Apache Kafka (KIP-320, KIP-345,
KIP-482, KIP-848). Topics go by name up to v9 and by id from v10. The field that a version lacks
is "" or None here.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from local_cluster.wire.errors import PeerError
from local_cluster.wire.primitives import (
    read_array_length,
    read_string,
    skip_tagged_fields,
    write_array_length,
)
from local_cluster.wire.topics import read_topic, write_topic

FLEXIBLE_SINCE: Final = 8
TOPIC_IDS_SINCE: Final = 10
LEADER_EPOCH_SINCE: Final = 6
INSTANCE_ID_SINCE: Final = 7
THROTTLE_TIME_SINCE: Final = 3
RETENTION_UNTIL: Final = 4

_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_PARTITION: Final = struct.Struct(">iq")
_PARTITION_WITH_EPOCH: Final = struct.Struct(">iqi")
_RESULT: Final = struct.Struct(">ih")
_NO_THROTTLE: Final = b"\0\0\0\0"


class PartitionPosition(NamedTuple):
    """One offset to commit."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


class TopicPositions(NamedTuple):
    """The offsets to commit in one topic."""

    topic: str
    topic_id: uuid.UUID | None
    partitions: Sequence[PartitionPosition]


class OffsetCommitRequest(NamedTuple):
    """An OffsetCommit request; a retention of -1 stands for the broker's."""

    group_id: str
    generation_id: int
    """The generation of a classic group, or the member epoch (KIP-848)."""
    member_id: str
    group_instance_id: str | None
    retention_ms: int
    topics: Sequence[TopicPositions]


def decode_request(version: int, frame: memoryview, position: int) -> OffsetCommitRequest:
    """Decode the request body. Raises PeerError for broken bytes."""
    flexible = version >= FLEXIBLE_SINCE
    by_id = version >= TOPIC_IDS_SINCE
    has_epoch = version >= LEADER_EPOCH_SINCE
    layout = _PARTITION_WITH_EPOCH if has_epoch else _PARTITION
    try:
        group_id, position = read_string(frame, position, flexible=flexible)
        (generation_id,) = _INT32.unpack_from(frame, position)
        member_id, position = read_string(frame, position + 4, flexible=flexible)
        group_instance_id = None
        if version >= INSTANCE_ID_SINCE:
            group_instance_id, position = read_string(frame, position, flexible=flexible)
        retention_ms = -1
        if version <= RETENTION_UNTIL:
            (retention_ms,) = _INT64.unpack_from(frame, position)
            position += 8
        topics = []
        topics_count, position = read_array_length(
            frame, position, flexible=flexible, element_bytes_min=3
        )
        for _ in range(topics_count):
            topic, topic_id, position = read_topic(frame, position, flexible=flexible, by_id=by_id)
            count, position = read_array_length(
                frame, position, flexible=flexible, element_bytes_min=layout.size
            )
            partitions = []
            for _ in range(count):
                fields = layout.unpack_from(frame, position)
                position += layout.size
                metadata, position = read_string(frame, position, flexible=flexible)
                if flexible:
                    position = skip_tagged_fields(frame, position)
                epoch = fields[2] if has_epoch else -1
                partitions.append(PartitionPosition(fields[0], fields[1], epoch, metadata))
            if flexible:
                position = skip_tagged_fields(frame, position)
            topics.append(TopicPositions(topic, topic_id, partitions))
        if flexible:
            position = skip_tagged_fields(frame, position)
    except (IndexError, struct.error) as error:
        raise PeerError(f"OffsetCommit v{version} is cut short: {error}") from error
    if group_id is None or member_id is None:
        raise PeerError("OffsetCommit without a group or member id")
    return OffsetCommitRequest(
        group_id, generation_id, member_id, group_instance_id, retention_ms, topics
    )


def encode_response(version: int, request: OffsetCommitRequest, errors: Iterable[int]) -> bytes:
    """Encode the response body: one error code for each offset of the request, in order."""
    flexible = version >= FLEXIBLE_SINCE
    by_id = version >= TOPIC_IDS_SINCE
    remaining = iter(errors)
    out = bytearray(_NO_THROTTLE if version >= THROTTLE_TIME_SINCE else b"")
    out += write_array_length(len(request.topics), flexible=flexible)
    end = b"\0" if flexible else b""
    for topic in request.topics:
        out += write_topic(topic, flexible=flexible, by_id=by_id)
        out += write_array_length(len(topic.partitions), flexible=flexible)
        for entry in topic.partitions:
            out += _RESULT.pack(entry[0], next(remaining)) + end
        out += end
    out += end
    return bytes(out)
