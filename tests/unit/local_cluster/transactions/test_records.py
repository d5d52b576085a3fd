"""Records of `__transaction_state` against the bytes of Kafka's Java classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_cluster.coordinator_runtime.outcome import UnreadableRecordError
from local_cluster.transactions.records import decode_key, decode_value, encode_key, encode_value
from local_cluster.transactions.requests import TransactionLimits
from local_cluster.transactions.shard import TransactionShard
from local_cluster.transactions.transaction import EPOCH_EXHAUSTED, Transaction

GOLDEN = Path(__file__).parents[3] / "golden" / "transaction_records.txt"
TRANSACTIONAL_ID = "tx-\u00fc"
START_MS = 1_700_000_000_000


def golden() -> dict[str, tuple[bytes, bytes | None]]:
    records = {}
    for line in GOLDEN.read_text().splitlines():
        name, key, value = line.split(" ")
        records[name] = (bytes.fromhex(key), None if value == "-" else bytes.fromhex(value))
    return records


def steps() -> Iterator[tuple[str, Transaction]]:
    """Yield the steps of the Java generator, done with our code."""
    first, second = frozenset({("t", 0)}), frozenset({("u", 4)})
    now = START_MS
    tx = Transaction(
        transactional_id=TRANSACTIONAL_ID, producer_id=7, producer_epoch=-1, timeout_ms=60_000
    )

    def init(tx: Transaction, producer_id: int, epoch: int, timeout_ms: int) -> Transaction:
        return tx.initialize(
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=-1,
            timeout_ms=timeout_ms,
            now_ms=now,
        )

    yield "init", (tx := init(tx, 7, 0, 60_000))
    yield "add", (tx := tx.add(first, 2, now + 1))
    yield "add_more", (tx := tx.add(second, 2, now + 2))
    tx = tx.prepare(is_commit=True, client_version=2, now_ms=now + 3)
    yield "prepare_commit", tx
    yield "complete_commit", (tx := tx.complete(now + 4))
    tx = tx.prepare(is_commit=False, client_version=2, now_ms=now + 5)
    yield "prepare_abort_of_nothing", tx
    yield "complete_abort", (tx := tx.complete(now + 6))
    now += 7
    yield "init_again", (tx := init(tx, 7, 3, 30_000))
    yield "add_version_1", (tx := tx.add(first, 0, now + 1))
    tx = tx.prepare(is_commit=True, client_version=0, now_ms=now + 2)
    yield "prepare_commit_version_1", tx
    yield "complete_commit_version_1", (tx := tx.complete(now + 3))
    tx = dataclasses.replace(tx, producer_epoch=EPOCH_EXHAUSTED)
    yield "add_at_last_epoch", (tx := tx.add(second, 2, now + 4))
    tx = tx.prepare(is_commit=True, client_version=2, next_producer_id=8, now_ms=now + 5)
    yield "prepare_commit_at_last_epoch", tx
    yield "complete_commit_new_id", (tx := tx.complete(now + 6))
    now += 7
    yield "rotation", init(tx, 9, 0, 60_000)


def test_every_step_has_kafkas_bytes() -> None:
    records = golden()
    done = dict(steps())
    assert done.keys() == records.keys() - {"version_1_cluster", "expired"}
    for name, transaction in done.items():
        key, value = records[name]
        assert (encode_key(TRANSACTIONAL_ID), encode_value(transaction)) == (key, value), name
        assert decode_key(key) == TRANSACTIONAL_ID
        # No record holds the last epoch.
        stored = dataclasses.replace(transaction, last_producer_epoch=-1)
        assert value is not None
        assert decode_value(TRANSACTIONAL_ID, value) == stored, name


def test_values_of_older_clusters_are_read() -> None:
    records = golden()
    old, new = records["version_1_cluster"][1], records["prepare_commit_version_1"][1]
    assert old is not None and new is not None
    assert old[:2] == b"\0\0", "value version 0"
    read = decode_value(TRANSACTIONAL_ID, old)
    expected = decode_value(TRANSACTIONAL_ID, new)
    assert dataclasses.replace(expected, previous_producer_id=-1) == read


def test_a_tombstone_forgets_the_id() -> None:
    records = golden()
    shard = TransactionShard(TransactionLimits())
    shard.replay(*records["init"])
    assert TRANSACTIONAL_ID in shard.transactions
    shard.replay(*records["expired"])
    assert not shard.transactions


def test_tagged_fields_that_are_not_known_are_skipped() -> None:
    value = golden()["init"][1]
    assert value is not None
    tags = value.rindex(b"\1\0\x08")
    # Tag 3 is the next producer epoch of KIP-939.
    extended = value[:tags] + b"\2" + value[tags + 1 :] + b"\3\2\0\5"
    assert decode_value(TRANSACTIONAL_ID, extended) == decode_value(TRANSACTIONAL_ID, value)


@pytest.mark.parametrize("name", ["init", "prepare_commit", "version_1_cluster"])
def test_cut_off_and_unknown_values_are_refused(name: str) -> None:
    value = golden()[name][1]
    assert value is not None
    for length in range(len(value)):
        with pytest.raises(UnreadableRecordError):
            decode_value(TRANSACTIONAL_ID, value[:length])
    for broken in (b"\0\2" + value[2:], value[:16] + b"\x63" + value[17:]):
        with pytest.raises(UnreadableRecordError):
            decode_value(TRANSACTIONAL_ID, broken)


def test_unknown_and_invalid_keys() -> None:
    assert decode_key(b"\0\1rest") is None
    with pytest.raises(UnreadableRecordError):
        decode_key(b"\0\0\0\5tx")
