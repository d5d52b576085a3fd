"""Time buckets: count, offset range and an order-independent hash sum per span of time.

Two sides whose buckets are equal hold the same multiset of records in that span (up to a
collision of 64-bit sums), so that nothing more needs to be compared; only the buckets that differ
go to `audit.reconcile`. A sum, not an exclusive or: a record doubled must not cancel itself out.

Guarantees: the summary does not depend on the order of records; summaries of parts add up.
Not here: order. A swap inside one bucket, or between two buckets, keeps the sums equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from .fingerprint import FINGERPRINT_BITS

BUCKET_MS_DEFAULT: Final = 600_000
_MODULUS: Final = 1 << FINGERPRINT_BITS


class Bucket(NamedTuple):
    """What one side holds of one span of time."""

    records_count: int
    offset_first: int
    """Smallest offset, on this side."""
    offset_last: int
    """Largest offset, on this side."""
    hash_sum: int
    """Sum of the fingerprints modulo 2**64."""


def summarize(
    records: Iterable[tuple[int, int, int]], *, bucket_ms: int = BUCKET_MS_DEFAULT
) -> dict[int, Bucket]:
    """Buckets by their start in milliseconds, from (offset, timestamp_ms, fingerprint)."""
    if bucket_ms < 1:
        raise ValueError(f"a bucket of {bucket_ms} ms holds nothing")
    buckets: dict[int, Bucket] = {}
    for offset, timestamp_ms, fingerprint in records:
        start_ms = timestamp_ms // bucket_ms * bucket_ms
        one = Bucket(1, offset, offset, fingerprint % _MODULUS)
        earlier = buckets.get(start_ms)
        buckets[start_ms] = one if earlier is None else add_buckets(earlier, one)
    return buckets


def add_buckets(left: Bucket, right: Bucket) -> Bucket:
    """The bucket of both parts together."""
    return Bucket(
        left.records_count + right.records_count,
        min(left.offset_first, right.offset_first),
        max(left.offset_last, right.offset_last),
        (left.hash_sum + right.hash_sum) % _MODULUS,
    )


def differing(source: Mapping[int, Bucket], aggregate: Mapping[int, Bucket]) -> list[int]:
    """Starts of the buckets whose contents differ, ascending; offsets do not count."""
    return sorted(
        start_ms
        for start_ms in source.keys() | aggregate.keys()
        if _content(source.get(start_ms)) != _content(aggregate.get(start_ms))
    )


def _content(bucket: Bucket | None) -> tuple[int, int]:
    return (0, 0) if bucket is None else (bucket.records_count, bucket.hash_sum)
