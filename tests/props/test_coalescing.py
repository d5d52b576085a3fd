"""Runs of tiny batches made into one: records, order and places stay."""

from __future__ import annotations

import cramjam
from hypothesis import given, settings
from hypothesis import strategies as st

from local_cluster.records import header as h
from local_cluster.records.batch import NewRecord, Record, decode_batch, encode_batch
from local_cluster.records.compress import Codec
from mirror_maker.copy.batch_selection import CopyPath, select_batches
from mirror_maker.copy.coalescing import RUN_BATCHES_MIN, TINY_BATCH_BYTES_MAX
from mirror_maker.copy.passthrough import prepare, stamp

_BYTES = st.none() | st.binary(max_size=40)
_RECORDS = st.builds(
    NewRecord,
    st.integers(-1, 1 << 44),
    _BYTES,
    # Some lengths need two bytes of a varint, some make a batch not tiny.
    _BYTES | st.sampled_from((b"v" * 200, bytes(range(256)) * 17)),
    st.lists(st.tuples(st.text(max_size=5), _BYTES), max_size=3).map(tuple),
)
_BATCHES = st.lists(
    st.tuples(
        st.lists(_RECORDS, min_size=1, max_size=4),
        st.sampled_from(Codec),
        # Unused offsets before the batch; mostly none.
        st.sampled_from((0, 0, 0, 0, 1, 7)),
        st.sampled_from((0, 0, 0, 0, 0, h.TRANSACTIONAL_BIT)),
    ),
    max_size=30,
)


def _log(
    batches: list[tuple[list[NewRecord], Codec, int, int]],
) -> tuple[bytearray, list[Record]]:
    log, expected, offset = bytearray(), [], 0
    for records, codec, gap, attributes in batches:
        offset += gap
        log += encode_batch(records, base_offset=offset, codec=codec, attributes=attributes)
        expected += [Record(offset + i, *record) for i, record in enumerate(records)]
        offset += len(records)
    return log, expected


@settings(deadline=None, max_examples=150)
@given(_BATCHES, st.integers(0, 20))
def test_records_order_and_places_stay(
    batches: list[tuple[list[NewRecord], Codec, int, int]], position: int
) -> None:
    log, expected = _log(batches)
    selection = select_batches(memoryview(log), position, (), coalesces=True)
    assert selection.refusal is None
    copied: list[Record] = []
    for batch in selection.batches:
        prepared = prepare(batch)
        assert prepared is not None
        stamp(prepared, 9, 0, 0)
        header = h.read_header(prepared.data)
        assert h.crc_is_valid(prepared.data, 0, header)
        assert header.records_count == header.last_offset_delta + 1 == prepared.records_count
        records = decode_batch(prepared.data, 0, header)
        assert max(record.timestamp_ms for record in records) == header.max_timestamp
        sources = [
            run.source_offset + index
            for run in prepared.runs(0)
            for index in range(run.records_count)
        ]
        copied += [
            record._replace(offset=source) for record, source in zip(records, sources, strict=True)
        ]
        assert prepared.source_first == sources[0]
        assert prepared.source_next == sources[-1] + 1
    assert copied == [record for record in expected if record.offset >= position]


def _tiny(count: int, codec: Codec, first: int = 0) -> list[bytearray]:
    return [
        encode_batch(
            [NewRecord(1_000 + i, b"k%d" % i, b"value " * 20)], base_offset=first + i, codec=codec
        )
        for i in range(count)
    ]


def _selected(*batches: bytearray) -> list[tuple[CopyPath, int]]:
    selection = select_batches(memoryview(b"".join(batches)), 0, (), coalesces=True)
    return [(batch.path, batch.batches_count) for batch in selection.batches]


def test_a_run_becomes_one_batch_of_its_codec() -> None:
    for codec in Codec:
        selection = select_batches(memoryview(b"".join(_tiny(50, codec))), 0, (), coalesces=True)
        (batch,) = selection.batches
        assert (batch.path, batch.batches_count) == (CopyPath.COALESCED, 50)
        assert batch.header.codec == codec
        assert selection.source_next == 50


def test_batches_outside_a_run_are_copied_on_their_own() -> None:
    run = _tiny(RUN_BATCHES_MIN, Codec.LZ4)
    coalesced = (CopyPath.COALESCED, RUN_BATCHES_MIN)
    others = {
        "another codec": encode_batch([NewRecord(1, b"k", b"v")], base_offset=4, codec=Codec.ZSTD),
        "not tiny": encode_batch([NewRecord(1, b"k", bytes(TINY_BATCH_BYTES_MAX))], base_offset=4),
    }
    for name, other in others.items():
        assert _selected(*run, other) == [coalesced, (CopyPath.PASSTHROUGH, 1)], name
    append_time = encode_batch(
        [NewRecord(1, b"k", b"v")], base_offset=4, attributes=h.TIMESTAMP_TYPE_BIT
    )
    assert _selected(*run, append_time) == [coalesced, (CopyPath.LOG_APPEND_TIME, 1)]
    few = _tiny(RUN_BATCHES_MIN - 1, Codec.LZ4)
    assert _selected(*few) == [(CopyPath.PASSTHROUGH, 1)] * (RUN_BATCHES_MIN - 1)


def test_a_batch_that_fails_its_crc_is_refused_after_the_run() -> None:
    run, broken = _tiny(RUN_BATCHES_MIN, Codec.LZ4), _tiny(1, Codec.LZ4, RUN_BATCHES_MIN)[0]
    broken[-1] ^= 1
    selection = select_batches(memoryview(b"".join([*run, broken])), 0, (), coalesces=True)
    assert [batch.path for batch in selection.batches] == [CopyPath.COALESCED]
    assert selection.refusal is not None
    assert selection.refusal.offset == selection.source_next == RUN_BATCHES_MIN


def test_batches_that_cannot_be_opened_are_copied_as_they_are() -> None:
    """As without coalescing: the target decides about it."""
    odd = []
    for batch in _tiny(RUN_BATCHES_MIN, Codec.NONE):
        batch[h.HEADER_BYTES] += 2  # a record that is one byte longer than its batch
        h.patch_crc(batch, 0)
        odd.append(batch)
    assert _selected(*odd) == [(CopyPath.PASSTHROUGH, 1)] * RUN_BATCHES_MIN


def test_lz4_frames_of_every_shape_are_joined() -> None:
    """Frames of Java (no checksums), of others with block checksums, and with content checksums."""
    shapes = (
        {"content_checksum": False, "block_linked": False},
        {"content_checksum": True, "block_linked": False},
        {"content_checksum": False, "block_linked": True},
    )
    log = bytearray()
    for offset in range(12):
        batch = encode_batch([NewRecord(1_000, b"k", b"v%d" % offset * 30)], base_offset=offset)
        compressor = cramjam.lz4.Compressor(**shapes[offset // 2 % 3])
        compressor.compress(bytes(batch[h.HEADER_BYTES :]))
        payload = bytes(compressor.finish())
        header = h.read_header(batch)._replace(
            attributes=Codec.LZ4,
            batch_length=h.HEADER_BYTES - h.LOG_OVERHEAD_BYTES + len(payload),
        )
        made = bytearray(h.pack_header(header)) + payload
        h.patch_crc(made, 0)
        log += made
    (batch_made,) = select_batches(memoryview(log), 0, (), coalesces=True).batches
    records = decode_batch(batch_made.view, 0, batch_made.header)
    assert [record.value for record in records] == [b"v%d" % offset * 30 for offset in range(12)]
