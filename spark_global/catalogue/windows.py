"""Windows of record time, and whether they are complete, over all datacenters.

A window is complete in a datacenter when the datacenter's `complete_through` passes its end: all
that its clusters had committed by then is copied. Producers may commit a record after the end of
its window, so `lateness_seconds` waits longer. A datacenter of which nothing is known is never
complete. `with_gaps` names the datacenters whose mirrors left records out, whenever that was. A
complete window with such a datacenter is complete with gaps.

    strict_windows      waits: only windows that are complete in every datacenter
    fast_windows        goes on: every window, and the datacenters that are missing
    datacenter_windows  every window of every datacenter by itself

The frame `completeness` must be read before `records`. Otherwise it may prove records that came
after the others were read. The SQL views do so.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from spark_global.catalogue.completeness import PARTS
from spark_global.catalogue.question import Question

WINDOW_INPUTS: Final = ("completeness", "end_offsets", "records")
_PARAMETERS: Final[MappingProxyType[str, Any]] = MappingProxyType(
    {"window": "5 minutes", "lateness_seconds": 0}
)
_LATENESS: Final = "make_interval(0, 0, 0, 0, 0, 0, :lateness_seconds)"

_STATED: Final = f"""
    {PARTS},
    stated AS (
      SELECT topic, datacenter,
             if(count(complete_through) = count(*), min(complete_through), NULL)
               AS complete_through,
             coalesce(sum(gaps), 0L) > 0 AS with_gaps
      FROM parts LEFT JOIN {{completeness}} USING (topic, datacenter, partition)
      GROUP BY topic, datacenter),
    counted AS (
      SELECT window(timestamp, :window) AS span, topic, datacenter, count(*) AS records,
             sum(coalesce(length(value), 0)) AS value_bytes
      FROM {{records}} GROUP BY window(timestamp, :window), topic, datacenter)
"""
"""Per datacenter of a topic: until when all of its partitions are complete, null if one of them is
unknown, and whether records were left out; and the windows."""

_ALL_WINDOWS: Final = f"""
    WITH {_STATED},
    vectors AS (
      SELECT topic, map_from_entries(collect_list(struct(datacenter, complete_through))) AS vector,
             sort_array(collect_list(datacenter) FILTER (WHERE with_gaps)) AS with_gaps
      FROM stated GROUP BY topic),
    totals AS (
      SELECT span, topic, sum(records) AS records, sum(value_bytes) AS value_bytes,
             sort_array(collect_set(datacenter)) AS datacenters
      FROM counted GROUP BY span, topic),
    members AS (
      SELECT totals.*, vector, coalesce(with_gaps, array()) AS with_gaps,
             array_union(array_distinct(flatten(collect_set(datacenters)
                                                  OVER (PARTITION BY totals.topic))),
                         coalesce(map_keys(vector), array())) AS members
      FROM totals LEFT JOIN vectors USING (topic)),
    found AS (
      SELECT *, sort_array(filter(members, each -> coalesce(
                  try_element_at(vector, each) < span.end + {_LATENESS}, true))) AS missing
      FROM members)
"""

STRICT_WINDOWS: Final = Question(
    name="strict_windows",
    about="A window that is complete in every datacenter; others are waited for.",
    inputs=WINDOW_INPUTS,
    parameters=_PARAMETERS,
    statement=f"""{_ALL_WINDOWS}
        SELECT span.start AS window_start, topic, records, value_bytes, datacenters, with_gaps
        FROM found WHERE size(missing) = 0
        """,
)

FAST_WINDOWS: Final = Question(
    name="fast_windows",
    about="A window with what is there; `missing` names the datacenters that are not complete.",
    inputs=WINDOW_INPUTS,
    parameters=_PARAMETERS,
    statement=f"""{_ALL_WINDOWS}
        SELECT span.start AS window_start, topic, records, value_bytes, datacenters, missing,
               with_gaps, size(missing) = 0 AS is_complete
        FROM found
        """,
)

DATACENTER_WINDOWS: Final = Question(
    name="datacenter_windows",
    about="A window of one datacenter, and whether it is complete; not while the window has "
    "records of unknown origin, which are a row without a datacenter.",
    inputs=WINDOW_INPUTS,
    parameters=_PARAMETERS,
    statement=f"""
        WITH {_STATED}
        SELECT span.start AS window_start, counted.topic, counted.datacenter, records, value_bytes,
               complete_through,
               coalesce(complete_through >= span.end + {_LATENESS}, false)
                 AND NOT bool_or(counted.datacenter IS NULL)
                           OVER (PARTITION BY counted.topic, span) AS is_complete,
               coalesce(with_gaps, false) AS with_gaps
        FROM counted LEFT JOIN stated
          ON counted.topic = stated.topic AND counted.datacenter = stated.datacenter
        """,
)

WINDOW_QUESTIONS: Final = (STRICT_WINDOWS, FAST_WINDOWS, DATACENTER_WINDOWS)
