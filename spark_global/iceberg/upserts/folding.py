"""Which record of a key wins, and what a table has after a batch. Pure.

The winner is the greatest by (timestamp, datacenter, partition, offset), as in the question
`latest_per_key`. Records without an origin come first, by their place on the aggregate. The order
is total and the row has all of it. So the result depends neither on the batches nor on the order in
which datacenters arrive, and a batch that runs again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_global.iceberg.upserts.keys import IS_DELETED, WRITTEN_AT, UpsertBy

ORDER: Final = (
    *("timestamp", "datacenter", "partition", "offset"),
    *("aggregate_topic", "aggregate_offset"),
)
_UNKNOWN: Final = {"datacenter": "", "offset": -1}
"""The place of a record without an origin: before all others of its time."""
_RANK: Final = "__rank"
_IS_NEW: Final = "__is_new"


def fold(rows: pa.Table, by: UpsertBy) -> pa.Table:
    """Return the winner of each key."""
    places = pa.table(
        {
            name: rows[name].fill_null(_UNKNOWN[name]) if name in _UNKNOWN else rows[name]
            for name in ORDER
        }
    )
    ascending = pc.sort_indices(places, [(name, "ascending") for name in ORDER])
    ranks = np.empty(rows.num_rows, dtype=np.int64)
    ranks[ascending.to_numpy()] = np.arange(rows.num_rows)
    ranked = rows.select(by.columns).append_column(_RANK, pa.array(ranks))
    winners = (
        ranked.group_by(by.columns).aggregate([(_RANK, "max")])[f"{_RANK}_max"].combine_chunks()
    )
    return rows.take(ascending.take(winners))


def merge(
    old: Iterable[pa.Table], changes: pa.Table, by: UpsertBy, forget_before_us: int
) -> Iterator[pa.Table]:
    """Yield the rows of one bucket after a batch.

    `old` has the bucket's rows in parts, one row per key in all of them together. `changes` has
    winners of the batch, in the same columns. Tombstones that were written before a time are left
    out. Memory: one part and the changes.
    """
    left = _marked(changes, is_new=True)
    for part in old:
        found = fold(pa.concat_tables([_marked(part, is_new=False), left]), by)
        kept, left = (found.filter(each) for each in (pc.invert(found[_IS_NEW]), found[_IS_NEW]))
        yield _remembered(kept.drop_columns(_IS_NEW), forget_before_us)
    yield left.drop_columns(_IS_NEW)


def _marked(rows: pa.Table, *, is_new: bool) -> pa.Table:
    return rows.append_column(_IS_NEW, pa.repeat(pa.scalar(is_new), rows.num_rows))


def _remembered(rows: pa.Table, forget_before_us: int) -> pa.Table:
    before = pa.scalar(forget_before_us, pa.int64()).cast(rows[WRITTEN_AT].type)
    return rows.filter(pc.invert(pc.and_(rows[IS_DELETED], pc.less(rows[WRITTEN_AT], before))))
