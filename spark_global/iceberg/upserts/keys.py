"""What a key is, and what a table with the latest record of each has besides. Pure."""

from __future__ import annotations

import zlib
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BUCKETS: Final = 16
"""Default of the files of a table. A batch rewrites those that it touches."""
RECORDS_MAX: Final = 500_000
"""Default of the most records of a batch; a task holds those of some buckets in memory."""
TOMBSTONE_HOURS: Final = 24.0
"""Default of the hours that a deleted key is remembered, so that no older record brings it back."""

BUCKET: Final = "bucket"
IS_DELETED: Final = "is_deleted"
WRITTEN_AT: Final = "written_at"


class UpsertBy(StrEnum):
    """What a row of the table is identified by."""

    KEY = "key"
    DATACENTER_KEY = "datacenter-key"

    @property
    def columns(self) -> list[str]:
        return ["key"] if self is UpsertBy.KEY else ["datacenter", "key"]


class Upsert(NamedTuple):
    """How a table keeps the latest records; fixed when the table is created."""

    by: UpsertBy
    buckets: int = BUCKETS


class KeylessRecordError(ValueError):
    """A record has no key, so it replaces nothing."""


def buckets_of(keys: pa.ChunkedArray, buckets: int) -> npt.NDArray[np.int32]:
    """Return the bucket of each key."""
    hashes = (zlib.crc32(key) % buckets for key in keys.to_pylist())
    return np.fromiter(hashes, dtype=np.int32, count=len(keys))
