"""Which batches of a fetch answer a read_committed reader sees.

Control batches carry no data. A batch of a transaction is hidden where its producer's transaction
was aborted: the Fetch answer lists (producer id, first offset) of every aborted transaction that
touches its batches, and the abort marker ends it. Source: Kafka's consumer, CompletedFetch.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable, Iterator
from typing import Final

from local_cluster.records.batch import decode_batch
from local_cluster.records.header import BatchHeader, Buffer, iter_headers

_CONTROL_KEY: Final = struct.Struct(">hh")
_ABORT: Final = 0


def committed_batches(
    records: Buffer, aborted: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, BatchHeader, bool]]:
    """(position, header, is visible) of every complete batch of one fetch answer."""
    starting = [(first_offset, producer_id) for producer_id, first_offset in aborted]
    heapq.heapify(starting)
    aborted_now: set[int] = set()
    for position, header in iter_headers(records):
        while starting and starting[0][0] <= header.last_offset:
            aborted_now.add(heapq.heappop(starting)[1])
        if header.is_control:
            if header.producer_id in aborted_now and _is_abort(records, position, header):
                aborted_now.discard(header.producer_id)
            yield position, header, False
        else:
            hidden = header.is_transactional and header.producer_id in aborted_now
            yield position, header, not hidden


def _is_abort(records: Buffer, position: int, header: BatchHeader) -> bool:
    for record in decode_batch(records, position, header):
        if record.key is not None and len(record.key) >= _CONTROL_KEY.size:
            kind: int = _CONTROL_KEY.unpack_from(record.key)[1]
            return kind == _ABORT
    return False
