"""Positions of MirrorMaker 2's source tasks, as Kafka Connect keeps them in its offsets topic.

Key: JSON `[connector name, {"cluster": alias, "partition": number, "topic": name}]`; value: JSON
`{"offset": number}`, the last offset that was copied and flushed, or null for a reset. Source:
MirrorUtils.wrapPartition and wrapOffset (apache/kafka, connect/mirror). Pure.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

SOURCE_CONNECTOR: Final = "MirrorSourceConnector"


class SourcePosition(NamedTuple):
    """How far a source partition was copied."""

    cluster: str
    """Alias of the source."""
    topic: str
    partition: int
    last_offset: int | None
    """The last one that was copied; None after a reset."""


def decode_source_position(key: bytes | None, value: bytes | None) -> SourcePosition | None:
    """Read a record of the offsets topic; None for what other connectors wrote."""
    try:
        connector, place = json.loads(key or b"null")
        # A dedicated MirrorMaker 2 names it plainly, Strimzi puts both aliases before it.
        if not str(connector).endswith(SOURCE_CONNECTOR):
            return None
        offset = None if value is None else json.loads(value)
        return SourcePosition(
            str(place["cluster"]),
            str(place["topic"]),
            int(place["partition"]),
            None if offset is None else int(offset["offset"]),
        )
    except (TypeError, ValueError, KeyError):
        return None
