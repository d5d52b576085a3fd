"""Records as columns: many batches decoded at once, with work per record only where it must be.

Record sizes chain (each record starts where the one before ends), so one tight Python loop finds
the record starts; everything behind that - varints, bounds, timestamps, the slices of keys,
values and headers - is done by numpy and Arrow over all records of all batches together.

Guarantees: for every sequence of batches the same offsets, timestamps, keys, values and headers
as `local_cluster.records.batch.decode_batch`, or CorruptRecordError where that raises it.

Not here: compression, transactions, which offsets are wanted; see `chunks.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from mmh3 import mmh3_x64_128_digest

from local_cluster.records.batch import CorruptRecordError
from local_cluster.records.fingerprint import DIGEST_BYTES
from local_cluster.records.header import BatchHeader

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

PAYLOAD_BYTES_MAX: Final = 2**31 - 1
"""Arrow's binary columns address their bytes with 32-bit offsets."""

_VARINT_BYTES_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Slices:
    """n byte strings inside a payload, in ascending order; length -1 is null."""

    starts: Int64s
    lengths: Int64s

    @property
    def ends(self) -> Int64s:
        return self.starts + np.maximum(self.lengths, 0)


@dataclass(frozen=True, slots=True)
class HeaderSlices:
    """The headers of all records in record order; `counts` says how many each record has."""

    counts: Int64s
    names: Slices
    values: Slices


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """n records over one payload of decompressed bytes, all arrays of length n."""

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


def decode_columns(batches: Sequence[tuple[BatchHeader, bytes]]) -> RecordColumns:
    """The records of the batches, whose decompressed payloads are given with their headers.

    Raises CorruptRecordError where the bytes do not follow the format, ValueError where the
    payloads together exceed PAYLOAD_BYTES_MAX.
    """
    payload = batches[0][1] if len(batches) == 1 else b"".join(part for _, part in batches)
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise ValueError(f"{len(payload)} bytes of records at once")
    starts: list[int] = []
    ends: list[int] = []
    base = 0
    for header, part in batches:
        _walk_records(payload, base, base + len(part), header.records_count, starts, ends)
        base += len(part)
    try:
        return _split_fields(payload, batches, _int64s(starts), _int64s(ends))
    except IndexError as error:
        raise CorruptRecordError(f"record cut short: {error}") from error


def fingerprint_columns(columns: RecordColumns) -> Int64s:
    """`local_cluster.records.fingerprint.fingerprint` of every record."""
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
    """The records from index `first` up to but not including `last`."""
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
    """The slices as an Arrow array of `kind` (binary or string), copied once by Arrow itself.

    Slices and the gaps between them are laid over the payload as one array without a copy; then
    every second element is taken.
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
    """The headers as list<struct<key: string, value: binary>>; empty lists, never null.

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


def _int64s(values: list[int]) -> Int64s:
    return np.array(values, dtype=np.int64)


def _walk_records(
    payload: bytes, position: int, limit: int, count: int, starts: list[int], ends: list[int]
) -> None:
    """Append where each record's attributes byte lies, and where each record ends."""
    start_append, end_append = starts.append, ends.append
    try:
        for _ in range(count):
            size = payload[position]
            position += 1
            if size >= 0x80:
                byte = payload[position]
                position += 1
                size = size & 0x7F | (byte & 0x7F) << 7
                shift = 14
                while byte >= 0x80:
                    if shift >= 7 * _VARINT_BYTES_MAX:
                        raise CorruptRecordError("varint longer than 10 bytes")
                    byte = payload[position]
                    position += 1
                    size |= (byte & 0x7F) << shift
                    shift += 7
            start_append(position)
            position += size >> 1
            if size & 1 or position > limit:
                raise CorruptRecordError("record runs past the end of the batch")
            end_append(position)
    except IndexError as error:
        raise CorruptRecordError("record runs past the end of the batch") from error


def _split_fields(
    payload: bytes, batches: Sequence[tuple[BatchHeader, bytes]], starts: Int64s, ends: Int64s
) -> RecordColumns:
    data: Bytes = np.frombuffer(payload, dtype=np.uint8)
    timestamp_deltas, position = _read_varints(data, starts + 1)
    offset_deltas, position = _read_varints(data, position)
    fields_starts = position
    keys, position = _read_slices(data, position, ends)
    values, position = _read_slices(data, position, ends)
    header_counts, position = _read_varints(data, position)
    headers, position = _read_headers(data, position, ends, header_counts)
    if not np.array_equal(position, ends):
        raise CorruptRecordError("record length does not match its fields")
    counts = [header.records_count for header, _ in batches]

    def spread(of_each_batch: list[Any]) -> npt.NDArray[Any]:
        return np.repeat(np.array(of_each_batch), counts)

    timestamps = spread([header.base_timestamp for header, _ in batches]) + timestamp_deltas
    if any(header.is_log_append_time for header, _ in batches):
        timestamps = np.where(
            spread([header.is_log_append_time for header, _ in batches]),
            spread([header.max_timestamp for header, _ in batches]),
            timestamps,
        )
    return RecordColumns(
        payload=payload,
        offsets=spread([header.base_offset for header, _ in batches]) + offset_deltas,
        timestamps_ms=timestamps,
        keys=keys,
        values=values,
        headers=headers,
        fields_starts=fields_starts,
        ends=ends,
    )


def _read_varints(data: Bytes, position: Int64s) -> tuple[Int64s, Int64s]:
    """A zigzag varint at every position, and the positions behind them. Raises IndexError."""
    byte = data[position]
    value = (byte & 0x7F).astype(np.uint64)
    position = position + 1
    longer = np.flatnonzero(byte >= 0x80)
    shift = 7
    while longer.size:
        if shift >= 7 * _VARINT_BYTES_MAX:
            raise CorruptRecordError("varint longer than 10 bytes")
        byte = data[position[longer]]
        value[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        position[longer] += 1
        longer = longer[byte >= 0x80]
        shift += 7
    return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(
        np.int64
    ), position


def _read_slices(data: Bytes, position: Int64s, ends: Int64s) -> tuple[Slices, Int64s]:
    lengths, starts = _read_varints(data, position)
    slices = Slices(starts, lengths)
    after = slices.ends
    if (lengths > ends - starts).any() or (starts > ends).any():
        raise CorruptRecordError("field runs past the end of its record")
    return slices, after


def _read_headers(
    data: Bytes, position: Int64s, ends: Int64s, counts: Int64s
) -> tuple[HeaderSlices, Int64s]:
    if ((counts < 0) | (counts > ends - position)).any():
        raise CorruptRecordError("more headers than the record has bytes")
    rows: list[Int64s] = []
    names: list[Slices] = []
    values: list[Slices] = []
    left = np.flatnonzero(counts > 0)
    position = position.copy()
    read = 0
    while left.size:
        name, after = _read_slices(data, position[left], ends[left])
        if (name.lengths < 0).any():
            raise CorruptRecordError("header without a name")
        value, after = _read_slices(data, after, ends[left])
        position[left] = after
        rows.append(left)
        names.append(name)
        values.append(value)
        read += 1
        left = left[counts[left] > read]
    if not rows:
        none = Slices(np.empty(0, np.int64), np.empty(0, np.int64))
        return HeaderSlices(counts, none, none), position
    # Collected header by header over all records; a stable sort brings them to record order.
    order = np.argsort(np.concatenate(rows), kind="stable")

    def ordered(slices: list[Slices]) -> Slices:
        return Slices(
            np.concatenate([part.starts for part in slices])[order],
            np.concatenate([part.lengths for part in slices])[order],
        )

    return HeaderSlices(counts, ordered(names), ordered(values)), position
