"""What the members of a consumer group subscribe to, read from metadata that is opaque elsewhere.

Format: ConsumerProtocolSubscription.json of Apache Kafka; every version begins with its number
(int16) and the topics (array of strings), which is all that is read here.
"""

from __future__ import annotations

import struct
from typing import Final

from local_cluster.groups.classic.group import ClassicGroup

CONSUMER_PROTOCOL: Final = "consumer"

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """The topics of all members; None where one member's subscription cannot be read.

    A member is read by the protocol that was selected, before that by any that it named.
    """
    topics: set[str] = set()
    for member in group.members.values():
        named = [metadata for name, metadata in member.protocols if name == group.protocol_name]
        for metadata in named or [metadata for _, metadata in member.protocols]:
            read = read_topics(metadata)
            if read is None:
                return None
            topics |= read
    return frozenset(topics)


def read_topics(subscription: bytes) -> frozenset[str] | None:
    """The topics of one subscription, None where it is not one."""
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
