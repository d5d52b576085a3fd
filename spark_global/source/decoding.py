"""Decodes the records of many batches into columns at once. Pure.

Record sizes form a chain: each record starts where the previous one ends. One tight loop, compiled
where the broker is, finds the starts. Everything else - varints, bounds, timestamps, the slices of
keys, values and headers - is computed by numpy over all records of all batches together.

Guarantees: for every sequence of batches the same offsets, timestamps, keys, values and headers as
`local_cluster.records.batch.decode_batch`, or CorruptRecordError if that raises it.

Not here: compression, transactions, the selection of offsets (reading.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from local_cluster.records.batch import CorruptRecordError, walk_records
from local_cluster.records.header import BatchHeader
from spark_global.source.columns import HeaderSlices, Int64s, RecordColumns, Slices

Bytes = npt.NDArray[np.uint8]

PAYLOAD_BYTES_MAX: Final = 2**31 - 1
"""Arrow's binary columns have 32-bit offsets."""

_VARINT_BYTES_MAX: Final = 10


def decode_columns(batches: Sequence[tuple[BatchHeader, bytes]]) -> RecordColumns:
    """Return the records of batches, each given by its header and its decompressed payload.

    Raises CorruptRecordError if the bytes violate the format, ValueError if the payloads together
    exceed PAYLOAD_BYTES_MAX.
    """
    payload = batches[0][1] if len(batches) == 1 else b"".join(part for _, part in batches)
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise ValueError(f"{len(payload)} bytes of records at once")
    begins: list[int] = []
    base = 0
    for header, part in batches:
        walk_records(payload, base, base + len(part), header.records_count, begins)
        base += len(part)
    try:
        sizes, starts = _read_varints(np.frombuffer(payload, dtype=np.uint8), _int64s(begins))
        if (sizes < 0).any():
            raise CorruptRecordError("record of a negative length")
        return _split_fields(payload, batches, starts, starts + sizes)
    except IndexError as error:
        raise CorruptRecordError(f"record cut short: {error}") from error


def has_no_gap(header: BatchHeader) -> bool:
    """Return whether a batch has a record at each of its offsets; compaction leaves gaps."""
    return header.records_count == header.last_offset_delta + 1


def decode_places(batches: Sequence[tuple[BatchHeader, bytes]]) -> RecordColumns:
    """Return the records of batches with their offsets and nothing else.

    A batch without gaps needs no payload. Raises CorruptRecordError as `decode_columns`.
    """
    offsets = [
        np.arange(header.base_offset, header.next_offset, dtype=np.int64)
        if has_no_gap(header)
        else decode_columns([(header, payload)]).offsets
        for header, payload in batches
    ]
    none = Slices(_int64s([]), _int64s([]))
    return RecordColumns(
        payload=b"",
        offsets=np.concatenate(offsets),
        timestamps_ms=_int64s([]),
        keys=none,
        values=none,
        headers=HeaderSlices(_int64s([]), none, none),
        fields_starts=_int64s([]),
        ends=_int64s([]),
    )


def _int64s(values: list[int]) -> Int64s:
    return np.array(values, dtype=np.int64)


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
    """Return the zigzag varint at every position, and the positions after. Raises IndexError."""
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
    # They were read header by header over all records; a stable sort restores record order.
    order = np.argsort(np.concatenate(rows), kind="stable")

    def ordered(slices: list[Slices]) -> Slices:
        return Slices(
            np.concatenate([part.starts for part in slices])[order],
            np.concatenate([part.lengths for part in slices])[order],
        )

    return HeaderSlices(counts, ordered(names), ordered(values)), position
