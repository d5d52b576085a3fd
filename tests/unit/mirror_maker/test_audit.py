"""The audit of one flow: what is lost or doubled on the way makes the two sides differ."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.audit import CHUNK_BUCKETS_MAX, KEPT_MS, FlowAudit
from mirror_maker.formats import FlowKey, MapFormatError, Run
from mirror_maker.formats.audit import (
    BUCKET_MS,
    AuditChunk,
    AuditTopic,
    batch_audit,
    decode_audit,
    encode_audit,
    encode_audit_key,
    total,
)

FLOW = FlowKey("t", 0, uuid.UUID(int=1), uuid.UUID(int=2))
NOW_MS = 1_700_000_000_000


def batch(number: int, records: int = 2, bucket: int = 5) -> memoryview:
    made = [
        NewRecord(bucket * BUCKET_MS + index, b"k", b"v%d-%d" % (number, index))
        for index in range(records)
    ]
    return memoryview(encode_batch(made))


def flow_audit(nonce: int = 1, source_from: int = 0, **options: object) -> FlowAudit:
    return FlowAudit(
        flow=FLOW,
        producer_epoch=0,
        nonce=nonce,
        target_topic="a.t",
        source_from=source_from,
        **options,  # type: ignore[arg-type]
    )


def chunk(source_from: int, source_to: int, nonce: int = 1) -> AuditChunk:
    return AuditChunk(
        flow=FLOW,
        producer_epoch=0,
        nonce=nonce,
        target_topic="a.t",
        source_from=source_from,
        source_to=source_to,
        written_at_ms=NOW_MS,
        buckets={},
    )


def copied(audit: FlowAudit, *numbers: int, acknowledged: tuple[int, ...] | None = None) -> None:
    """Batches of two records, fetched at offsets 0, 2, ... and acknowledged at 10, 12, ..."""
    for place, number in enumerate(numbers):
        audit.fetched(2 * place, 2 * place + 1, batch(number))
    for place, number in enumerate(numbers if acknowledged is None else acknowledged):
        audit.acknowledged(10 + 2 * place, batch_audit(batch(number)))


def test_both_sides_of_what_was_copied_are_equal() -> None:
    audit = flow_audit()
    copied(audit, 1, 2, 3)
    (written,), deleted = audit.take_records(6, NOW_MS)
    assert (written.source_from, written.source_to, deleted) == (0, 6, [])
    (bucket,) = written.buckets.values()
    assert bucket.is_equal
    assert bucket.source is not None
    assert bucket.target is not None
    assert bucket.source[:3] == (6, 0, 5)
    assert bucket.target[:3] == (6, 10, 15)


@pytest.mark.parametrize("acknowledged", [(1, 3), (1, 2, 2, 3), (1, 2, 4)])
def test_a_lost_a_doubled_and_another_batch_are_seen(acknowledged: tuple[int, ...]) -> None:
    audit = flow_audit()
    copied(audit, 1, 2, 3, acknowledged=acknowledged)
    (written,), _ = audit.take_records(6, NOW_MS)
    (bucket,) = written.buckets.values()
    assert not bucket.is_equal


def test_what_is_not_acknowledged_yet_is_not_told() -> None:
    audit = flow_audit()
    copied(audit, 1, 2, 3, acknowledged=(1,))
    (first,), _ = audit.take_records(2, NOW_MS)
    (bucket,) = first.buckets.values()
    assert bucket.is_equal
    for place, number in ((1, 2), (2, 3)):
        audit.acknowledged(10 + 2 * place, batch_audit(batch(number)))
    (second,), _ = audit.take_records(6, NOW_MS)
    assert encode_audit_key(first) == encode_audit_key(second)
    (bucket,) = second.buckets.values()
    assert bucket.is_equal
    assert bucket.source is not None
    assert bucket.source.records_count == 6


def test_a_successor_goes_on_with_what_was_written_and_pairs_the_rest() -> None:
    dead = flow_audit()
    copied(dead, 1, 2)
    (written,), _ = dead.take_records(4, NOW_MS)
    heir = flow_audit(2, written.source_to, predecessor=written)
    tail = [(10, batch(1)), (12, batch(2)), (14, batch(3))]
    heir.paired(tail, [Run(0, 10, 6)])
    (second,), _ = heir.take_records(6, NOW_MS)
    (bucket,) = second.buckets.values()
    assert bucket.is_equal
    assert bucket.source is not None
    assert bucket.source[:3] == (6, 0, 5)


def test_a_write_that_failed_is_written_again() -> None:
    audit = flow_audit()
    for bucket in range(CHUNK_BUCKETS_MAX):
        audit.fetched(2 * bucket, 2 * bucket + 1, batch(bucket, bucket=bucket))
        audit.acknowledged(2 * bucket, batch_audit(batch(bucket, bucket=bucket)))
    end = 2 * CHUNK_BUCKETS_MAX
    chunks, deleted = audit.take_records(end, NOW_MS)
    audit.put_back(chunks, deleted)
    again, _ = audit.take_records(end, NOW_MS)
    assert [(each.source_from, each.source_to) for each in again] == [(0, end), (end, end)]
    assert again[0] == chunks[0]


def test_old_chunks_are_deleted_and_late_ones_are_not() -> None:
    old, new = chunk(0, 5), chunk(5, 9)
    audit = flow_audit(2, 9, predecessor=new, written=[old, new])
    _, deleted = audit.take_records(9, NOW_MS + KEPT_MS + 1)
    assert deleted == [encode_audit_key(old), encode_audit_key(new)]
    assert audit.take_records(9, NOW_MS + KEPT_MS + 2)[1] == []


def replayed(*chunks: AuditChunk) -> AuditTopic:
    topic = AuditTopic()
    for each in chunks:
        topic.replay(*encode_audit(each))
    return topic


def test_the_chain_of_the_last_writer_is_found_among_overlapping_chunks() -> None:
    topic = replayed(
        chunk(0, 60), chunk(60, 95), chunk(95, 120), chunk(60, 300, nonce=2), chunk(300, 310, 3)
    )
    found = [(each.source_from, each.source_to) for each in topic.chain(FLOW, 0)]
    assert found == [(0, 60), (60, 300), (300, 310)]


def test_an_older_state_that_comes_late_does_not_replace_a_newer_one() -> None:
    topic = replayed(chunk(0, 60), chunk(0, 40))
    assert [each.source_to for each in topic.chain(FLOW, 0)] == [60]
    topic.replay(encode_audit_key(chunk(0, 60)), None)
    assert topic.chain(FLOW, 0) == []


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4), st.integers(0, 40)), max_size=30))
def test_sums_do_not_depend_on_the_cuts(
    batches: list[tuple[int, int, int]],
) -> None:
    """However often a chunk is written and taken over, the totals are those of one writer."""
    whole, parts = flow_audit(), flow_audit()
    chunks: list[AuditChunk] = []
    source = 0
    for number, records, bucket in batches:
        made = batch(number, records, bucket)
        for audit in (whole, parts):
            audit.fetched(source, source + records - 1, made)
            audit.acknowledged(source, batch_audit(made))
        source += records
        if number % 3 == 0:
            chunks += parts.take_records(source, NOW_MS)[0]
            parts = flow_audit(len(chunks) + 2, source, predecessor=chunks[-1])
    chunks += parts.take_records(source, NOW_MS)[0]
    (one, *more), _ = whole.take_records(source, NOW_MS)
    assert not more
    if source:
        assert total(replayed(*chunks).chain(FLOW, 0)) == total([one])
    assert all(bucket.is_equal for bucket in one.buckets.values())


def test_a_chunk_survives_its_bytes_and_broken_bytes_are_refused() -> None:
    audit = flow_audit()
    copied(audit, 1, 2)
    (written,), _ = audit.take_records(4, NOW_MS)
    key, value = encode_audit(written)
    assert decode_audit(key, value) == written
    for broken in (b"", b"{}", value.replace(b'"version":1', b'"version":2')):
        with pytest.raises(MapFormatError):
            decode_audit(key, broken)
