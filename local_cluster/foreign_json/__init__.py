"""JSON that others wrote: in znodes, in topics of mirrors, in requests. Pure.

- `parsing`: documents and their values, or ValueError.
"""

from __future__ import annotations

from local_cluster.foreign_json.parsing import (
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    decimal,
    integer,
    parse_json,
    parse_object,
    string,
)

__all__ = [
    "INT32_MAX",
    "INT64_MAX",
    "INT64_MIN",
    "decimal",
    "integer",
    "parse_json",
    "parse_object",
    "string",
]
