"""The batches of a fetch response that a read_committed reader sees.

Control batches have no data. Batches of an aborted transaction are hidden: the Fetch response lists
(producer id, first offset) of each aborted transaction among its batches, and the abort marker ends
it. Source: Kafka's consumer, CompletedFetch.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from local_cluster.records.batch import decode_batch
from local_cluster.records.control import ABORT, read_type
from local_cluster.records.header import BatchHeader, Buffer, iter_headers


def committed_batches(
    records: Buffer, aborted: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, BatchHeader, bool]]:
    """Yield (position, header, is visible) of each complete batch of one fetch response."""
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
    kinds = (read_type(record) for record in decode_batch(records, position, header))
    return next((kind for kind in kinds if kind is not None), None) == ABORT
