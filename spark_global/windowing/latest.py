"""One row per window, of a table that keeps fast windows: for readers by Spark or DuckDB. Pure.

The table has a row per batch that changes a window, and beside them rows of late records. A window
has the newest of the first, and the sum of the others. Both engines know the statement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUFFIX: Final = "_latest"
"""What DuckDB's view is called, behind the name of the table."""


def _newest(column: str) -> str:
    # A window that has only late records has no other row.
    newest = f"max_by({column}, batch) FILTER (WHERE NOT is_late)"
    return f"coalesce({newest}, max_by({column}, batch)) AS {column}"


def _counted(column: str) -> str:
    newest = f"max_by({column}, batch) FILTER (WHERE NOT is_late)"
    return f"CAST(coalesce({newest}, 0) + {_late(column)} AS BIGINT) AS {column}"


def _late(column: str) -> str:
    return f"coalesce(sum({column}) FILTER (WHERE is_late), 0)"


_STATEMENT: Final = f"""
    SELECT window_start, topic, {_counted("records")}, {_counted("value_bytes")},
           {_newest("datacenters")}, {_newest("missing")}, {_newest("with_gaps")},
           {_newest("is_complete")}, CAST({_late("records")} AS BIGINT) AS late_records,
           max(batch) AS batch
    FROM {{rows}} GROUP BY window_start, topic
"""


def latest_statement(table: str) -> str:
    """Return the statement over a table, whose name is quoted if it must be."""
    return _STATEMENT.format(rows=table)


def latest_windows(rows: DataFrame) -> DataFrame:
    """Return one row per window of what `fast_windows` has written, with column `batch`.

    `records` and `value_bytes` have the late records too; `late_records` counts them.
    """
    return rows.sparkSession.sql(_STATEMENT, rows=rows)
