"""`fingerprint`: what it covers, what it leaves out; its values never change."""

from __future__ import annotations

import pytest

from local_cluster.records.batch import Headers, NewRecord, Record, encode_batch, iter_records
from local_cluster.records.fingerprint import (
    encode_fields,
    fingerprint,
    fingerprint_record,
    fingerprint_slice,
)

BASE = (1_357_034_400_000, b"UA", b'{"flight":1545}', (("source", b"desk"),))


def test_values_never_change() -> None:
    # Both ends of a comparison may run different versions of this code.
    assert fingerprint(0, None, None) == -1709673336353263160
    assert fingerprint(*BASE) == -8596104536718010483


@pytest.mark.parametrize(
    "other",
    [
        (BASE[0] + 1, *BASE[1:]),
        (BASE[0], b"AA", *BASE[2:]),
        (BASE[0], None, *BASE[2:]),
        (BASE[0], BASE[1], None, BASE[3]),
        (BASE[0], BASE[1], b"", BASE[3]),
        (*BASE[:3], ()),
        (*BASE[:3], (("source", None),)),
        (*BASE[:3], (("source", b"desk"), ("source", b"desk"))),
        # The same bytes, cut between the fields elsewhere.
        (BASE[0], b"UA{", b'"flight":1545}', BASE[3]),
        (*BASE[:3], (("sourced", b"esk"),)),
    ],
)
def test_any_difference_changes_it(other: tuple[int, bytes | None, bytes | None, Headers]) -> None:
    assert fingerprint(*other) != fingerprint(*BASE)


def test_order_of_headers_counts() -> None:
    one, two = ("a", b"1"), ("b", b"2")
    assert fingerprint(0, None, None, (one, two)) != fingerprint(0, None, None, (two, one))


def test_null_is_not_empty() -> None:
    assert fingerprint(0, None, None) != fingerprint(0, b"", None) != fingerprint(0, b"", b"")


def test_offset_does_not_count() -> None:
    timestamp, key, value, headers = BASE
    here = Record(7, timestamp, key, value, headers)
    there = Record(700, timestamp, key, value, headers)
    assert fingerprint_record(here) == fingerprint_record(there) == fingerprint(*BASE)


def test_the_encoded_fields_are_the_end_of_a_record_in_a_batch() -> None:
    timestamp, key, value, headers = BASE
    batch = bytes(encode_batch([NewRecord(timestamp, key, value, headers)]))
    fields = encode_fields(key, value, headers)
    assert batch.endswith(fields)
    (record,) = iter_records(batch)
    assert fingerprint_record(record) == fingerprint_slice(timestamp, fields)
