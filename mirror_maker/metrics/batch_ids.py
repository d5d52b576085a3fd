"""Ids of the spans of batches, a function of the batch's place on the target. Pure.

Whoever knows the place can name the span: `heliograph trace` links the trace of one record to the
span of the batch that carried it.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import NamedTuple

_PLACE = struct.Struct(">iq")


class SpanIds(NamedTuple):
    """The ids of one span; neither is 0."""

    trace_id: int
    """128 bits."""
    span_id: int
    """64 bits."""


def batch_ids(link: str, target_topic: str, partition: int, base_offset: int) -> SpanIds:
    """Return the ids of the span of a batch of a link that the target has at `base_offset`."""
    place = b"\0".join((b"batch", link.encode(), target_topic.encode(), b""))
    digest = blake2b(place + _PLACE.pack(partition, base_offset), digest_size=24).digest()
    return SpanIds(int.from_bytes(digest[:16], "big") or 1, int.from_bytes(digest[16:], "big") or 1)
