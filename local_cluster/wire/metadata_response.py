"""Metadata responses v0-v13 by hand, a broker's side: the parts that a broker may keep encoded.

A response is `encode_head`, for each topic `encode_topic` and `encode_topic_end`, then
`encode_end`. The bytes of a topic depend on the version and the image alone. The end of a topic
depends on the principal.

Schema: MetadataResponse.json of Apache Kafka (KIP-4, KIP-112, KIP-320, KIP-430, KIP-516, KIP-1102).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.primitives import write_array_length, write_string, write_unsigned_varint

if TYPE_CHECKING:
    from local_cluster.wire.responses.cluster import (
        MetadataResponseBroker,
        MetadataResponsePartition,
        MetadataResponseTopic,
    )

FLEXIBLE_SINCE: Final = 9
_BROKERS_LAYOUTS_MAX: Final = 64
"""Structs of lists of broker ids, by their length."""
_NO_TOPIC_ID: Final = bytes(16)
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_PARTITION: Final = struct.Struct(">hii")
_PARTITION_WITH_EPOCH: Final = struct.Struct(">hiii")


def encode_head(
    version: int,
    *,
    brokers: Sequence[MetadataResponseBroker],
    cluster_id: str | None,
    controller_id: int,
    topics_count: int,
) -> bytes:
    """Encode a response up to its topics. The throttle time is 0."""
    flexible = version >= FLEXIBLE_SINCE
    out = bytearray(b"\0\0\0\0" if version >= 3 else b"")
    out += write_array_length(len(brokers), flexible=flexible)
    for broker in brokers:
        out += _INT32.pack(broker["node_id"])
        out += write_string(broker["host"], flexible=flexible)
        out += _INT32.pack(broker["port"])
        if version >= 1:
            out += write_string(broker.get("rack"), flexible=flexible)
        if flexible:
            out.append(0)
    if version >= 2:
        out += write_string(cluster_id, flexible=flexible)
    if version >= 1:
        out += _INT32.pack(controller_id)
    return bytes(out + write_array_length(topics_count, flexible=flexible))


def encode_topic(version: int, topic: MetadataResponseTopic) -> bytes:
    """Encode a topic without its authorized operations. Raises TypeError for a null name < v12."""
    flexible = version >= FLEXIBLE_SINCE
    name = topic["name"]
    if name is None and version < 12:
        raise TypeError(f"Metadata v{version} has no null name of a topic")
    out = bytearray(_INT16.pack(topic["error_code"]))
    out += write_string(name, flexible=flexible)
    if version >= 10:
        topic_id = topic.get("topic_id")
        out += _NO_TOPIC_ID if topic_id is None else topic_id.bytes
    if version >= 1:
        out.append(topic.get("is_internal", False))
    partitions = topic["partitions"]
    out += write_array_length(len(partitions), flexible=flexible)
    for partition in partitions:
        out += _encode_partition(version, partition)
    return bytes(out)


@lru_cache(maxsize=256)
def encode_topic_end(version: int, authorized_operations: int) -> bytes:
    """Encode the rest of a topic: the bit field of KIP-430."""
    end = _INT32.pack(authorized_operations) if version >= 8 else b""
    return end + b"\0" if version >= FLEXIBLE_SINCE else end


def encode_end(version: int, cluster_authorized_operations: int) -> bytes:
    """Encode the rest of a response, without an error."""
    end = _INT32.pack(cluster_authorized_operations) if 8 <= version <= 10 else b""
    if version >= 13:
        end += _INT16.pack(ErrorCode.none)
    return end + b"\0" if version >= FLEXIBLE_SINCE else end


def _encode_partition(version: int, partition: MetadataResponsePartition) -> bytes:
    error_code, index = partition["error_code"], partition["partition_index"]
    leader = partition["leader_id"]
    if version >= 7:
        out = _PARTITION_WITH_EPOCH.pack(error_code, index, leader, partition["leader_epoch"])
    else:
        out = _PARTITION.pack(error_code, index, leader)
    flexible = version >= FLEXIBLE_SINCE
    out += _encode_broker_ids(partition["replica_nodes"], flexible)
    out += _encode_broker_ids(partition["isr_nodes"], flexible)
    if version >= 5:
        out += _encode_broker_ids(partition["offline_replicas"], flexible)
    return out + b"\0" if flexible else out


def _encode_broker_ids(ids: Sequence[int], flexible: bool) -> bytes:
    count = len(ids)
    length = write_unsigned_varint(count + 1) if flexible else _INT32.pack(count)
    return length + _broker_ids_layout(count).pack(*ids)


@lru_cache(maxsize=_BROKERS_LAYOUTS_MAX)
def _broker_ids_layout(count: int) -> struct.Struct:
    return struct.Struct(f">{count}i")
