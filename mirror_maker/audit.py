"""The audit of one flow as it grows: both sides of each bucket, and the chunk to write. Pure.

What is fetched is counted on the source's side, what is acknowledged on the target's; a batch
that is lost or doubled between the two, or acknowledged in the place of another, makes them
differ. (That the bytes arrive as they were is the batch's CRC, which every broker checks.)

A chunk is written before the block of the map that reaches as far: so whoever goes on from the map
finds the audit at least as far, and what lies between the two in the target's tail, which the
pairing has compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from .formats import FlowKey, Run
from .formats.audit import (
    HASH_MASK,
    AuditChunk,
    BatchAudit,
    Bucket,
    Side,
    batch_audit,
    encode_audit_key,
)

CHUNK_BUCKETS_MAX: Final = 16
"""A chunk is closed when it has so many: about 1 kB, some hours of data as it is produced."""
KEPT_MS: Final = 48 * 3_600_000
"""A chunk is deleted so long after it was last written."""


class _Fetched(NamedTuple):
    source_first: int
    source_last: int
    audit: BatchAudit


class _Sums:
    """One side of the buckets as they grow: by their starts, [records, first, last, hash sum].

    Lists, and the sums reduced only when they are read: this is done for every batch.
    """

    def __init__(self) -> None:
        self.by_start: dict[int, list[int]] = {}

    def add(self, first: int, last: int, audit: BatchAudit) -> None:
        """Take in a batch; offsets of one side ascend."""
        start_ms, count, hashed = audit
        sums = self.by_start.get(start_ms)
        if sums is None:
            self.by_start[start_ms] = [count, first, last, hashed]
        else:
            sums[0] += count
            sums[2] = last
            sums[3] += hashed

    def side(self, start_ms: int) -> Side | None:
        sums = self.by_start.get(start_ms)
        if sums is None:
            return None
        count, first, last, hash_sum = sums
        return Side(count, first, last, hash_sum & HASH_MASK)

    def preset(self, start_ms: int, side: Side | None) -> None:
        if side is not None:
            self.by_start[start_ms] = list(side)


class FlowAudit:
    """The audit of one flow from a proved starting point on."""

    def __init__(
        self,
        *,
        flow: FlowKey,
        producer_epoch: int,
        nonce: int,
        target_topic: str,
        source_from: int,
        predecessor: AuditChunk | None = None,
        written: Sequence[AuditChunk] = (),
    ) -> None:
        """Begins at `source_from`, or as `predecessor` if that ends there.

        `written` are the flow's chunks that are there, to be deleted in time.
        """
        self._flow = flow
        self._producer_epoch = producer_epoch
        self._nonce = nonce
        self._target_topic = target_topic
        self._source_from = self._source_to = source_from
        self._source, self._target = _Sums(), _Sums()
        self._fetched: deque[_Fetched] = deque()
        self.is_behind = False
        """Whether what was taken is not known to be written, and was given back."""
        self._closed: list[AuditChunk] = []
        self._expired: list[bytes] = []
        self._written = deque(sorted(written, key=lambda chunk: chunk.written_at_ms))
        if predecessor is not None and len(predecessor.buckets) < CHUNK_BUCKETS_MAX:
            assert predecessor.source_to == source_from, (predecessor, source_from)
            self._source_from = predecessor.source_from
            for start_ms, bucket in predecessor.buckets.items():
                self._source.preset(start_ms, bucket.source)
                self._target.preset(start_ms, bucket.target)

    def fetched(self, source_first: int, source_last: int, data: memoryview) -> BatchAudit:
        """A batch is ready to be written: what the source has of it."""
        audit = batch_audit(data)
        self._fetched.append(_Fetched(source_first, source_last, audit))
        return audit

    def acknowledged(self, target_offset: int, audit: BatchAudit) -> None:
        """The target has that batch at this offset."""
        self._target.add(target_offset, target_offset + audit.records_count - 1, audit)

    def paired(self, batches: Iterable[tuple[int, memoryview]], runs: Sequence[Run]) -> None:
        """Batches of the target's tail as (offset, batch) with their places in the source.

        Those that were audited before are left out; the others were compared with the source.
        """
        places = iter(runs)
        run = next(places, None)
        for offset, data in batches:
            audit = batch_audit(data)
            last = offset + audit.records_count - 1
            first_source = last_source = -1
            while run is not None and run.target_next <= offset:
                run = next(places, None)
            if run is not None:
                first_source = run.source_offset + offset - run.target_offset
            while run is not None and run.target_next <= last:
                run = next(places, None)
            if run is not None:
                last_source = run.source_offset + last - run.target_offset
            if first_source >= self._source_to:
                self._fetched.append(_Fetched(first_source, last_source, audit))
                self.acknowledged(offset, audit)

    def take_records(self, source_to: int, now_ms: int) -> tuple[list[AuditChunk], list[bytes]]:
        """(chunks to write, keys to delete), so that all before `source_to` is accounted for.

        A caller whose write failed gives both back with `put_back`.
        """
        while self._fetched and self._fetched[0].source_last < source_to:
            self._source.add(*self._fetched.popleft())
        self._source_to = max(self._source_to, source_to)
        chunk = AuditChunk(
            flow=self._flow,
            producer_epoch=self._producer_epoch,
            nonce=self._nonce,
            target_topic=self._target_topic,
            source_from=self._source_from,
            source_to=self._source_to,
            written_at_ms=now_ms,
            buckets={
                start_ms: Bucket(self._source.side(start_ms), self._target.side(start_ms))
                for start_ms in {**self._source.by_start, **self._target.by_start}
            },
        )
        chunks, self._closed, self.is_behind = [*self._closed, chunk], [], False
        if len(chunk.buckets) >= CHUNK_BUCKETS_MAX:
            self._written.append(chunk)
            self._source_from = self._source_to
            self._source, self._target = _Sums(), _Sums()
        while self._written and self._written[0].written_at_ms < now_ms - KEPT_MS:
            self._expired.append(encode_audit_key(self._written.popleft()))
        expired, self._expired = self._expired, []
        return chunks, expired

    def put_back(self, chunks: Sequence[AuditChunk], expired: Sequence[bytes]) -> None:
        """The write of `take_records` is not known to have happened: have it written again."""
        # The open chunk is written again as it is by then; to write one twice does no harm.
        self.is_behind = True
        self._expired[:0] = expired
        self._closed[:0] = [each for each in chunks if each.source_from != self._source_from]
