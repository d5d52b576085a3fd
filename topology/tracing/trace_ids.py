"""The ids of a record's trace. Pure.

A record whose headers have a W3C `traceparent` belongs to its producer's trace. Any other record
has a trace of its own, whose id is a function of the record's place. So whoever traces a record,
from whatever host and however often, gets the same ids, and a second export replaces the first.
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from local_cluster.records.batch import Headers

TRACEPARENT: Final = "traceparent"
_FIELDS: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_FIRST_VERSION: Final = b"00"
_NO_VERSION: Final = b"ff"
_SAMPLED: Final = 1
_PLACE: Final = struct.Struct(">iq")


class TraceParent(NamedTuple):
    """What a `traceparent` header says: https://www.w3.org/TR/trace-context/#traceparent-header."""

    trace_id: int
    span_id: int
    """The producer's span."""
    is_sampled: bool


class RecordIdentity(NamedTuple):
    """A record at its source, for ever: topics and clusters by id."""

    cluster_id: str
    topic_id: uuid.UUID
    """All zero in a cluster without topic ids."""
    topic: str
    partition: int
    offset: int

    def digest(self, *what: str, size_bytes: int) -> bytes:
        """Return bytes that depend on the record and on `what`."""
        texts = (self.cluster_id, self.topic, *what)
        identity = b"\0".join(text.encode() for text in texts) + b"\0" + self.topic_id.bytes
        place = _PLACE.pack(self.partition, self.offset)
        return blake2b(identity + place, digest_size=size_bytes).digest()


class TraceIds(NamedTuple):
    """The trace of one record."""

    record: RecordIdentity
    trace_id: int
    parent: TraceParent | None
    """None if the record has no `traceparent`."""

    def span_id(self, *what: str) -> int:
        """Return the id of the span of one step, such as ("copied", LINK)."""
        return int.from_bytes(self.record.digest("span", *what, size_bytes=8), "big") or 1


def trace_ids(record: RecordIdentity, headers: Headers) -> TraceIds:
    """Return the ids of a record with these headers."""
    parent = parse_traceparent(headers)
    own = int.from_bytes(record.digest("trace", size_bytes=16), "big") or 1
    return TraceIds(record, own if parent is None else parent.trace_id, parent)


def parse_traceparent(headers: Sequence[tuple[str, bytes | None]]) -> TraceParent | None:
    """Return what the last `traceparent` header says; None without a valid one."""
    values = [value for name, value in headers if name == TRACEPARENT]
    found = _FIELDS.fullmatch(values[-1] or b"") if values else None
    if found is None or found[1] == _NO_VERSION or (found[1] == _FIRST_VERSION and found[5]):
        return None
    trace_id, span_id = int(found[2], 16), int(found[3], 16)
    if not trace_id or not span_id:
        return None
    return TraceParent(trace_id, span_id, bool(int(found[4], 16) & _SAMPLED))
