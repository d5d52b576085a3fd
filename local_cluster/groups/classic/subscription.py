"""The topics that the members of a classic consumer group subscribe to.

They are read from the members' metadata, which is opaque elsewhere. Format:
ConsumerProtocolSubscription.json of Apache Kafka. Every version starts with its number (int16) and
the topics (array of strings); the rest is not read.
"""

from __future__ import annotations

import struct
from typing import Final

from local_cluster.groups.classic.group import ClassicGroup

CONSUMER_PROTOCOL: Final = "consumer"

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """Return the topics of all members, or None if one member's subscription is unreadable.

    Read each member's metadata of the selected protocol; before the selection, of every protocol.
    """
    topics: set[str] = set()
    for member in group.members.values():
        selected = [metadata for name, metadata in member.protocols if name == group.protocol_name]
        for metadata in selected or [metadata for _, metadata in member.protocols]:
            subscribed = read_topics(metadata)
            if subscribed is None:
                return None
            topics |= subscribed
    return frozenset(topics)


def read_topics(subscription: bytes) -> frozenset[str] | None:
    """Return the topics of one subscription, or None if the bytes are not one."""
    try:
        (version,) = _INT16.unpack_from(subscription, 0)
        (count,) = _INT32.unpack_from(subscription, 2)
        if version < 0 or not 0 <= count <= len(subscription):
            return None
        topics = set()
        position = 6
        for _ in range(count):
            (length,) = _INT16.unpack_from(subscription, position)
            end = position + 2 + length
            if length < 0 or end > len(subscription):
                return None
            topics.add(subscription[position + 2 : end].decode())
            position = end
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
