"""`committed`: the batches that a read_committed reader sees, by Kafka's rules."""

from __future__ import annotations

import struct
from pathlib import Path

from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.committed import committed_batches
from local_cluster.records.header import CONTROL_BIT, TRANSACTIONAL_BIT, iter_headers

GOLDEN = Path(__file__).parents[3] / "golden"
ABORT, COMMIT = 0, 1


def data(offset: int, producer_id: int, *, transactional: bool = True) -> bytes:
    return bytes(
        encode_batch(
            [NewRecord(0, None, b"x")],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            attributes=TRANSACTIONAL_BIT if transactional else 0,
        )
    )


def marker(offset: int, producer_id: int, kind: int) -> bytes:
    return bytes(
        encode_batch(
            [NewRecord(0, struct.pack(">hh", 0, kind), b"\0" * 6)],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
        )
    )


def visible(log: bytes, aborted: list[tuple[int, int]]) -> list[int]:
    return [header.base_offset for _, header, seen in committed_batches(log, aborted) if seen]


def test_aborted_batches_and_markers_are_hidden() -> None:
    log = data(0, 7) + data(1, 8) + marker(2, 7, ABORT) + marker(3, 8, COMMIT) + data(4, 7)
    assert visible(log, [(7, 0)]) == [1, 4]


def test_an_aborted_transaction_ends_with_its_marker() -> None:
    log = data(0, 7) + marker(1, 7, ABORT) + data(2, 7) + marker(3, 7, COMMIT)
    log += data(4, 7) + marker(5, 7, ABORT)
    assert visible(log, [(7, 4), (7, 0)]) == [2]


def test_batches_outside_of_transactions_are_visible() -> None:
    log = data(0, 7, transactional=False) + data(1, 7) + marker(2, 7, ABORT)
    assert visible(log, [(7, 1)]) == [0]


def test_a_transaction_that_started_before_the_fetch_is_hidden() -> None:
    log = data(50, 7) + marker(51, 7, ABORT) + data(52, 7)
    assert visible(log, [(7, 3)]) == [52]


def test_a_commit_marker_that_java_wrote_is_hidden() -> None:
    log = bytes.fromhex((GOLDEN / "record_batch_commit_marker.hex").read_text())
    assert list(iter_headers(log))
    assert visible(log, []) == []
