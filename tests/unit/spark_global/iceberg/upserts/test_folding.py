"""The latest record of each key does not depend on batches, or on who arrives first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_global.iceberg.upserts.folding import fold, merge
from spark_global.iceberg.upserts.keys import UpsertBy, buckets_of
from spark_global.source.tables import RECORDS, TIMESTAMP

ROWS = pa.schema(
    [
        *RECORDS,
        pa.field("is_deleted", pa.bool_()),
        pa.field("written_at", TIMESTAMP),
    ]
)
NEVER = -1


class Written(NamedTuple):
    """A record, as much of it as matters."""

    time: int
    datacenter: str | None
    offset: int | None
    key: bytes
    value: bytes | None
    place: int


@st.composite
def histories(draw: st.DrawFn) -> list[Written]:
    """Records in the order of the aggregate. Clocks run back, and datacenters share keys."""
    count = draw(st.integers(1, 24))
    found = []
    for place in range(count):
        datacenter = draw(st.sampled_from(["EWR", "JFK", None]))
        found.append(
            Written(
                time=draw(st.integers(0, 4)),
                datacenter=datacenter,
                offset=None if datacenter is None else place // 2,
                key=draw(st.sampled_from([b"", b"a", b"b"])),
                value=draw(st.sampled_from([None, b"x", b"y"])),
                place=place,
            )
        )
    return found


def table(records: Sequence[Written], written_at: int = 0) -> pa.Table:
    rows: list[dict[str, Any]] = [
        {
            "datacenter": each.datacenter,
            "topic": "t",
            "partition": 0,
            "offset": each.offset,
            "aggregate_topic": "a",
            "aggregate_offset": each.place,
            "timestamp": each.time,
            "key": each.key,
            "value": each.value,
            "headers": [],
            "is_deleted": each.value is None,
            "written_at": written_at,
        }
        for each in records
    ]
    return pa.Table.from_pylist(rows, schema=ROWS)


def plain(rows: pa.Table) -> set[tuple[Any, ...]]:
    names = ("datacenter", "key", "value", "aggregate_offset", "is_deleted")
    found = list(zip(*(rows[name].to_pylist() for name in names), strict=True))
    assert len(found) == len(set(found))
    return set(found)


def winners(records: Sequence[Written], by: UpsertBy) -> set[tuple[Any, ...]]:
    """The same in plain Python."""

    def order(each: Written) -> tuple[Any, ...]:
        datacenter, offset = each.datacenter or "", -1 if each.offset is None else each.offset
        return each.time, datacenter, offset, each.place

    def identity(each: Written) -> tuple[Any, ...]:
        return (each.key,) if by is UpsertBy.KEY else (each.datacenter, each.key)

    last = {identity(each): each for each in sorted(records, key=order)}
    return {
        (each.datacenter, each.key, each.value, each.place, each.value is None)
        for each in last.values()
    }


def apply(
    rows: pa.Table, records: Sequence[Written], by: UpsertBy, part: int, **times: int
) -> pa.Table:
    """Apply a batch to a table that is read in parts of some rows."""
    parts = [rows.slice(at, part) for at in range(0, rows.num_rows, part)]
    changes = fold(table(records, times.get("now", 0)), by)
    return pa.concat_tables(merge(parts, changes, by, times.get("forget", NEVER)))


@given(histories(), st.sampled_from(UpsertBy), st.randoms(use_true_random=False), st.data())
def test_any_batches_in_any_order_give_the_table_of_one_fold(
    records: list[Written], by: UpsertBy, chance: Any, data: st.DataObject
) -> None:
    expected = winners(records, by)
    assert plain(fold(table(records), by)) == expected
    arriving = list(records)
    chance.shuffle(arriving)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(arriving)), max_size=5)))
    batches = [arriving[a:b] for a, b in itertools.pairwise([0, *cuts, len(arriving)])]
    rows = ROWS.empty_table()
    part = data.draw(st.integers(1, 4))
    for batch in batches:
        if batch:
            rows = apply(rows, batch, by, part)
            if data.draw(st.booleans()):  # the batch runs again
                rows = apply(rows, batch, by, part)
    assert plain(rows) == expected


def test_a_tombstone_is_remembered_for_a_time() -> None:
    deleted = Written(5, "JFK", 1, b"a", None, 1)
    late = Written(4, "JFK", 0, b"a", b"old", 0)
    other = Written(9, "JFK", 9, b"b", b"v", 9)
    rows = apply(ROWS.empty_table(), [deleted], UpsertBy.KEY, 1, now=100)
    remembered = apply(rows, [late], UpsertBy.KEY, 1, now=200, forget=100)
    assert plain(remembered) == {("JFK", b"a", None, 1, True)}
    forgotten = apply(rows, [other], UpsertBy.KEY, 1, now=200, forget=101)
    assert plain(forgotten) == {("JFK", b"b", b"v", 9, False)}


def test_a_bucket_is_that_of_the_key_alone() -> None:
    keys = pa.chunked_array([[b"", b"a", b"123456789"]])
    assert buckets_of(keys, 1 << 30).tolist() == [0, 0xE8B7BE43 % (1 << 30), 0xCBF43926 % (1 << 30)]
