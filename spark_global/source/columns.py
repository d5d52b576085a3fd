"""Records as columns of numpy arrays over one payload, and as Arrow arrays. Pure.

`decoding.py` builds the columns from record batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from mmh3 import mmh3_x64_128_digest

from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.fingerprint import DIGEST_BYTES

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Slices:
    """n byte strings inside a payload, in ascending order; a length of -1 is null."""

    starts: Int64s
    lengths: Int64s

    @property
    def ends(self) -> Int64s:
        return self.starts + np.maximum(self.lengths, 0)


@dataclass(frozen=True, slots=True)
class HeaderSlices:
    """The headers of all records in record order; `counts` has the number of each record."""

    counts: Int64s
    names: Slices
    values: Slices


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """n records over one payload of decompressed bytes; every array has length n."""

    payload: bytes
    offsets: Int64s
    timestamps_ms: Int64s
    keys: Slices
    values: Slices
    headers: HeaderSlices
    fields_starts: Int64s
    ends: Int64s

    def __len__(self) -> int:
        return len(self.offsets)


def fingerprint_columns(columns: RecordColumns) -> Int64s:
    """Return `local_cluster.records.fingerprint` of every record."""
    payload = columns.payload
    stamps = columns.timestamps_ms.astype(">i8").tobytes()
    digest = mmh3_x64_128_digest
    spans = zip(
        range(0, len(stamps), 8),
        columns.fields_starts.tolist(),
        columns.ends.tolist(),
        strict=True,
    )
    joined = b"".join(
        [digest(stamps[at : at + 8] + payload[start:end]) for at, start, end in spans]
    )
    words = np.frombuffer(joined, dtype="<i8").reshape(-1, DIGEST_BYTES // 8)
    return np.ascontiguousarray(words[:, 0], dtype=np.int64)


def take_rows(columns: RecordColumns, first: int, last: int) -> RecordColumns:
    """Return the records with indexes [first, last)."""
    headers_before = int(columns.headers.counts[:first].sum())
    headers_end = headers_before + int(columns.headers.counts[first:last].sum())

    def cut(slices: Slices, start: int, end: int) -> Slices:
        return Slices(slices.starts[start:end], slices.lengths[start:end])

    return RecordColumns(
        payload=columns.payload,
        offsets=columns.offsets[first:last],
        timestamps_ms=columns.timestamps_ms[first:last],
        keys=cut(columns.keys, first, last),
        values=cut(columns.values, first, last),
        headers=HeaderSlices(
            columns.headers.counts[first:last],
            cut(columns.headers.names, headers_before, headers_end),
            cut(columns.headers.values, headers_before, headers_end),
        ),
        fields_starts=columns.fields_starts[first:last],
        ends=columns.ends[first:last],
    )


def binary_column(payload: bytes, slices: Slices, kind: pa.DataType) -> pa.Array:
    """Return the slices as an Arrow array of `kind` (binary or string), with one copy by Arrow.

    The slices and the gaps between them form one array over the payload, without a copy. Then every
    second element is taken.
    """
    count = len(slices.starts)
    bounds = np.empty(2 * count, dtype=np.int32)
    bounds[0::2] = slices.starts
    bounds[1::2] = slices.ends
    if not count:
        return pa.array([], type=kind)
    spans = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds.data), pa.py_buffer(payload)]
    )
    nulls = slices.lengths < 0
    wanted = pa.array(
        np.arange(0, 2 * count, 2, dtype=np.int32), mask=nulls if nulls.any() else None
    )
    taken = spans.take(wanted)
    return taken if kind == pa.binary() else taken.cast(kind)


def headers_column(columns: RecordColumns, element: pa.StructType) -> pa.Array:
    """Return the headers as list<struct<key: string, value: binary>>; empty lists, never null.

    Raises CorruptRecordError for a name that is not UTF-8.
    """
    headers = columns.headers
    offsets = np.zeros(len(columns) + 1, dtype=np.int32)
    np.cumsum(headers.counts, out=offsets[1:])
    try:
        names = binary_column(columns.payload, headers.names, element.field(0).type)
    except pa.ArrowInvalid as error:
        raise CorruptRecordError(f"header name: {error}") from error
    structs = pa.StructArray.from_arrays(
        [
            names,
            binary_column(columns.payload, headers.values, element.field(1).type),
        ],
        fields=[element.field(0), element.field(1)],
    )
    return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), structs)
