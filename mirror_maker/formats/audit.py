"""The audit of one link: per span of time, what came from the source and what the target has.

Topic: `heliograph-audit.<link>.internal` on the target, one partition, compacted. Key and value
are JSON objects; both carry `"version": 1`.

    key    source_topic, partition, source_topic_id, target_topic_id, producer_epoch, source_from,
           nonce
    value  target_topic, source_to, written_at_ms, buckets: a list of
           [start_ms, source, target], each side [records, first, last, "hash"] or null

A *chunk* tells of the source offsets [source_from, source_to), all of which were copied and
acknowledged, or left out. Each side of a bucket has its count of records, its smallest and its
largest offset on that side, and the sum modulo 2**64 of the hashes of its batches, which does not
depend on their order. A batch belongs to the bucket of its largest timestamp and is hashed by what
both sides have of it: records' bytes as compressed, count, timestamps (`batch_hash`). The source's
side is taken when a batch is fetched (where a batch must be opened, of what was made of it), the
target's of the batches and at the offsets that were acknowledged. A producer epoch begins at the
source offset of its opening, which is an earlier one where the source's log was replaced.

A writer rewrites its own open chunk; each state of it is true. A worker that takes over goes on
with what its predecessor wrote under a key of its own. So chunks may overlap, but those of the
last writer lead from the start to the end: `AuditTopic.chain` finds them. Chunks are deleted from
the front when they are older than the mirror keeps them.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import mmh3
from crc32c import crc32c

from local_cluster.records import header as h

from .fields import MapFormatError
from .records import FlowKey

AUDIT_VERSION: Final = 1
BUCKET_MS: Final = 600_000
HASH_MASK: Final = (1 << 64) - 1
_HASHED: Final = struct.Struct(">IHiqq")


def audit_topic_name(link: str) -> str:
    """Name of the link's audit topic; MM2's pattern for internal topics leaves it alone."""
    return f"heliograph-audit.{link}.internal"


class BatchAudit(NamedTuple):
    """What of one batch goes into a bucket."""

    start_ms: int
    records_count: int
    hash: int


class Side(NamedTuple):
    """What one side has of a bucket; offsets are that side's own."""

    records_count: int
    offset_first: int
    offset_last: int
    hash_sum: int

    def plus(self, other: Side) -> Side:
        return Side(
            self.records_count + other.records_count,
            min(self.offset_first, other.offset_first),
            max(self.offset_last, other.offset_last),
            (self.hash_sum + other.hash_sum) & HASH_MASK,
        )


class Bucket(NamedTuple):
    """One span of time on both sides; None where that side has nothing of it."""

    source: Side | None
    target: Side | None

    @property
    def is_equal(self) -> bool:
        """Whether both sides hold the same batches."""
        return _content(self.source) == _content(self.target)

    def plus(self, other: Bucket) -> Bucket:
        return Bucket(_sum(self.source, other.source), _sum(self.target, other.target))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditChunk:
    """What was copied of the source offsets [source_from, source_to)."""

    flow: FlowKey
    producer_epoch: int
    nonce: int
    target_topic: str
    source_from: int
    source_to: int
    written_at_ms: int
    buckets: dict[int, Bucket]
    """By their starts in milliseconds since the epoch."""


def batch_audit(data: memoryview) -> BatchAudit:
    """Of a batch whose header is dense and whose payload is what both sides have."""
    fields = h.unpack_fields(data, 0)
    attributes, base_timestamp, max_timestamp, records_count = (
        fields[5], fields[7], fields[8], fields[12],
    )  # fmt: skip
    hashed = _HASHED.pack(
        crc32c(data[h.HEADER_BYTES :]),
        attributes & h.CODEC_MASK,
        records_count,
        base_timestamp,
        max_timestamp,
    )
    start_ms = max_timestamp - max_timestamp % BUCKET_MS
    return BatchAudit(start_ms, records_count, mmh3.hash64(hashed, signed=False)[0])


def encode_audit_key(chunk: AuditChunk) -> bytes:
    return _dump(
        {
            "version": AUDIT_VERSION,
            "source_topic": chunk.flow.source_topic,
            "partition": chunk.flow.partition,
            "source_topic_id": str(chunk.flow.source_topic_id),
            "target_topic_id": str(chunk.flow.target_topic_id),
            "producer_epoch": chunk.producer_epoch,
            "source_from": chunk.source_from,
            "nonce": chunk.nonce,
        }
    )


def encode_audit(chunk: AuditChunk) -> tuple[bytes, bytes]:
    """Key and value of a chunk."""
    value = {
        "version": AUDIT_VERSION,
        "target_topic": chunk.target_topic,
        "source_to": chunk.source_to,
        "written_at_ms": chunk.written_at_ms,
        "buckets": [
            [start_ms, _encode_side(bucket.source), _encode_side(bucket.target)]
            for start_ms, bucket in chunk.buckets.items()
        ],
    }
    return encode_audit_key(chunk), _dump(value)


def decode_audit(key: bytes, value: bytes) -> AuditChunk:
    """Read a chunk. Raises MapFormatError."""
    try:
        k, v = _object(key), _object(value)
        return AuditChunk(
            flow=_flow(k),
            producer_epoch=int(k["producer_epoch"]),
            nonce=int(k["nonce"]),
            target_topic=str(v["target_topic"]),
            source_from=int(k["source_from"]),
            source_to=int(v["source_to"]),
            written_at_ms=int(v["written_at_ms"]),
            buckets={
                int(start_ms): Bucket(_decode_side(source), _decode_side(target))
                for start_ms, source, target in v["buckets"]
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MapFormatError(f"no audit record: {error!r}") from error


class AuditTopic:
    """A whole audit topic, replayed: feed every record in log order, ask at any time."""

    def __init__(self) -> None:
        self._chunks: dict[FlowKey, dict[bytes, AuditChunk]] = {}

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Take in the next record of the topic; a null value deletes. Raises MapFormatError."""
        if key is None:
            raise MapFormatError("a record without a key")
        if value is not None:
            chunk = decode_audit(key, value)
            chunks = self._chunks.setdefault(chunk.flow, {})
            if key not in chunks or chunks[key].source_to <= chunk.source_to:
                chunks[key] = chunk  # else an older write that came late
            return
        try:
            self._chunks.get(_flow(_object(key)), {}).pop(key, None)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MapFormatError(f"no audit record: {error!r}") from error

    def flows(self) -> list[tuple[FlowKey, int]]:
        """Every flow with each producer epoch that it was copied with, ascending within a flow."""
        return [
            (flow, epoch)
            for flow, chunks in self._chunks.items()
            for epoch in sorted({chunk.producer_epoch for chunk in chunks.values()})
        ]

    def chunks(self, flow: FlowKey) -> list[AuditChunk]:
        """Every chunk of a flow, overlapping ones too, ascending by their starts."""
        return sorted(
            self._chunks.get(flow, {}).values(), key=lambda each: (each.source_from, each.source_to)
        )

    def chain(self, flow: FlowKey, producer_epoch: int) -> list[AuditChunk]:
        """Chunks of an epoch without overlap or gap, up to the furthest that one reaches.

        Of the chains that reach as far, the longest.
        """
        best: dict[int, list[AuditChunk]] = {}
        """By where they end: the chain that begins earliest."""
        for chunk in self.chunks(flow):
            if chunk.producer_epoch != producer_epoch or chunk.source_to == chunk.source_from:
                continue
            made = [*best.get(chunk.source_from, ()), chunk]
            held = best.get(chunk.source_to)
            if held is None or made[0].source_from < held[0].source_from:
                best[chunk.source_to] = made
        return best[max(best)] if best else []

    def furthest(self, flow: FlowKey, producer_epoch: int, source_to: int) -> AuditChunk | None:
        """The chunk of an epoch that reaches furthest, if any reaches to `source_to` at least."""
        found = [
            chunk
            for chunk in self._chunks.get(flow, {}).values()
            if chunk.producer_epoch == producer_epoch and chunk.source_to >= source_to
        ]
        return max(found, key=lambda each: (each.source_to, -each.source_from), default=None)


def total(chunks: Iterable[AuditChunk]) -> dict[int, Bucket]:
    """The buckets of chunks that do not overlap, added up, ascending."""
    buckets: dict[int, Bucket] = {}
    for chunk in chunks:
        for start_ms, bucket in chunk.buckets.items():
            held = buckets.get(start_ms)
            buckets[start_ms] = bucket if held is None else held.plus(bucket)
    return dict(sorted(buckets.items()))


def _content(side: Side | None) -> tuple[int, int]:
    return (0, 0) if side is None else (side.records_count, side.hash_sum)


def _sum(left: Side | None, right: Side | None) -> Side | None:
    if left is None or right is None:
        return left or right
    return left.plus(right)


def _encode_side(side: Side | None) -> list[int | str] | None:
    return None if side is None else [*side[:3], f"{side.hash_sum:016x}"]


def _decode_side(value: Any) -> Side | None:
    if value is None:
        return None
    records_count, first, last, hash_sum = value
    return Side(int(records_count), int(first), int(last), int(hash_sum, 16))


def _flow(key: dict[str, Any]) -> FlowKey:
    return FlowKey(
        str(key["source_topic"]),
        int(key["partition"]),
        uuid.UUID(key["source_topic_id"]),
        uuid.UUID(key["target_topic_id"]),
    )


def _object(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(data)
    if found["version"] != AUDIT_VERSION:
        raise MapFormatError(f"audit version {found['version']}, {AUDIT_VERSION} is known")
    return found


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
