"""Durations by bucket, with a resolution of at most 25 %.

A unit is 1,024 ns. Bucket `v` below 8 holds durations of `v` units. Above that each power of two
has four buckets. The last bucket also holds everything longer than some 25 minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

UNIT_BITS: Final = 10
"""Two to this power of nanoseconds is one unit."""
BUCKETS: Final = 120
LAST_BUCKET: Final = BUCKETS - 1
_NANOSECONDS_PER_MS: Final = 1_000_000


def bucket_of(duration_ns: int) -> int:
    """Return the bucket of a duration; a negative one is in the first."""
    units = duration_ns >> UNIT_BITS
    if units < 8:
        return max(units, 0)
    bits = units.bit_length()
    return min(((bits - 3) << 2) + (units >> (bits - 3)), LAST_BUCKET)


def bucket_bounds_ns(bucket: int) -> tuple[int, int]:
    """Return the first duration of a bucket, and the first one above it."""
    return _first_unit(bucket) << UNIT_BITS, _first_unit(bucket + 1) << UNIT_BITS


def quantiles_ms(counts: Sequence[int], quantiles: Sequence[float]) -> list[float]:
    """Return the durations below which these ascending shares of the counted ones lie.

    Each is interpolated within its bucket. Without any count all are 0, as in Kafka.
    """
    total = sum(counts)
    if not total:
        return [0.0] * len(quantiles)
    found: list[float] = []
    bucket, below = 0, 0
    for quantile in quantiles:
        rank = quantile * total
        while bucket < LAST_BUCKET and below + counts[bucket] < rank:
            below += counts[bucket]
            bucket += 1
        first_ns, next_ns = bucket_bounds_ns(bucket)
        share = (rank - below) / counts[bucket] if counts[bucket] else 0.0
        found.append((first_ns + share * (next_ns - first_ns)) / _NANOSECONDS_PER_MS)
    return found


def _first_unit(bucket: int) -> int:
    if bucket < 8:
        return bucket
    return (4 + (bucket & 3)) << ((bucket >> 2) - 1)
