"""Until when the copies of a topic are complete, and what holds them back.

A partition that has copies and of which nothing is stated is unknown. So a mirror that is silent
never makes an answer look better than it is.
"""

from __future__ import annotations

from typing import Final

from spark_global.catalogue.question import Question

PARTS: Final = """
    parts AS (
      SELECT topic, datacenter, partition FROM {completeness} WHERE datacenter IS NOT NULL
      UNION
      SELECT topic, datacenter, partition FROM {end_offsets}
      WHERE datacenter IS NOT NULL AND mapped_source_offset IS NOT NULL)
"""
"""The source partitions that are stated, or of which an offset map has copies."""

COMPLETE_THROUGH: Final = Question(
    name="complete_through",
    about="Until when a datacenter's copies of a topic are complete, with how many gaps, and what "
    "holds it back since when; a row without a datacenter is over all of them. Null is unknown.",
    inputs=("completeness", "end_offsets"),
    statement=f"""
        WITH {PARTS},
        stated AS (
          SELECT topic, datacenter, datacenter AS source, partition, complete_through, gaps,
                 if(worker IS NULL, 'its mirror has stated nothing about it', held_by) AS held_by,
                 held_since,
                 struct(complete_through IS NOT NULL, complete_through, datacenter, partition)
                   AS place
          FROM parts LEFT JOIN {{completeness}} USING (topic, datacenter, partition))
        SELECT topic, datacenter,
               if(count(complete_through) = count(*), min(complete_through), NULL)
                 AS complete_through,
               CASE WHEN count(complete_through) < count(*) THEN 'unknown'
                    WHEN sum(gaps) > 0 THEN 'complete_with_gaps' ELSE 'complete' END AS state,
               coalesce(sum(gaps), 0L) AS gaps,
               min_by(source, place) AS held_by_datacenter,
               min_by(partition, place) AS held_by_partition, min_by(held_by, place) AS held_by,
               min_by(held_since, place) AS held_since,
               if(count(complete_through) = count(*),
                  timestampdiff(SECOND, min(complete_through), current_timestamp()), NULL)
                 AS seconds_behind
        FROM stated GROUP BY GROUPING SETS ((topic, datacenter), (topic))
        """,
)
"""`state` has the names of the HTTP answers. `gaps` are entries of the journals."""

LINK_LATENCY: Final = Question(
    name="link_latency",
    about="How long the partitions of a datacenter need to the aggregate, now: a record that is "
    "older is copied. LATE if a partition needs more than `late_seconds`, or is unknown; an idle "
    "datacenter is OK.",
    inputs=("completeness", "end_offsets"),
    parameters={"late_seconds": 30},
    statement=f"""
        WITH {PARTS},
        aged AS (
          SELECT topic, datacenter,
                 if(complete_through IS NULL, NULL,
                    greatest(unix_millis(current_timestamp()) - unix_millis(complete_through), 0L)
                    / 1000.0D) AS seconds
          FROM parts LEFT JOIN {{completeness}} USING (topic, datacenter, partition))
        SELECT topic, datacenter, count(*) AS partitions,
               count(*) - count(seconds) AS unknown_partitions,
               percentile(seconds, 0.5) AS p50_seconds, percentile(seconds, 0.99) AS p99_seconds,
               max(seconds) AS worst_seconds,
               if(count(seconds) = count(*) AND max(seconds) <= :late_seconds, 'OK', 'LATE')
                 AS status
        FROM aged GROUP BY topic, datacenter
        """,
)
"""`status` is the rule of the HTTP answers, whose `late_ms` has the same default. The percentiles
are over the partitions that are known."""
