"""Questions about the records of a global topic, and about what is missing between them.

Times are the timestamps of the records, as their producers set them. A tie is decided by datacenter
and aggregate offset, so every answer is deterministic.

Spark reads `FROM t WHERE offset - 1 ...` as a table named WHERE with an OFFSET clause. So `offset`
is quoted where a condition begins with it.

`windowing/` asks `top_keys`, `conflicts` and `cross_datacenter_pairs` of a stream, by these
statements.
"""

from __future__ import annotations

from typing import Final

from spark_global.catalogue.question import Question

CROSS_DATACENTER_PAIRS: Final = Question(
    name="cross_datacenter_pairs",
    about="A key was written in two datacenters within some seconds.",
    parameters={"seconds": 30},
    statement="""
        SELECT a.key, a.topic,
               a.datacenter AS first_datacenter, b.datacenter AS second_datacenter,
               a.timestamp AS first_timestamp, b.timestamp AS second_timestamp,
               a.value AS first_value, b.value AS second_value
        FROM {records} a JOIN {records} b
          ON a.key = b.key AND a.topic = b.topic AND a.datacenter <> b.datacenter
         AND (a.timestamp, a.datacenter) < (b.timestamp, b.datacenter)
         AND b.timestamp <= a.timestamp + make_interval(0, 0, 0, 0, 0, 0, :seconds)
        """,
)

DUPLICATES: Final = Question(
    name="duplicates",
    about="The aggregate has several copies of one source record.",
    statement="""
        SELECT datacenter, topic, partition, offset, count(*) AS copies,
               sort_array(collect_list(aggregate_offset)) AS aggregate_offsets
        FROM {records} WHERE `offset` IS NOT NULL
        GROUP BY datacenter, topic, topic_id, partition, offset HAVING count(*) > 1
        """,
)

FIRST_COPIES: Final = Question(
    name="first_copies",
    about="Every source record once: its first copy. Records of unknown origin are kept.",
    statement="""
        SELECT * EXCEPT (place) FROM (
          SELECT *, row_number() OVER (
            PARTITION BY datacenter, topic, topic_id, partition, offset,
                         if(offset IS NULL, struct(aggregate_topic, aggregate_offset), NULL)
            ORDER BY aggregate_topic, aggregate_offset) AS place
          FROM {records}) WHERE place = 1
        """,
)

CONFLICTS: Final = Question(
    name="conflicts",
    about="A key was written in several datacenters within one window; the last write wins.",
    parameters={"window": "1 minute"},
    is_streamable=True,
    statement="""
        SELECT key, topic, window(timestamp, :window).start AS window_start,
               sort_array(collect_set(datacenter)) AS datacenters,
               max_by(datacenter, struct(timestamp, datacenter, partition, aggregate_offset))
                 AS winner,
               max_by(value, struct(timestamp, datacenter, partition, aggregate_offset))
                 AS winning_value,
               unix_millis(max(timestamp)) - unix_millis(min(timestamp)) AS spread_ms
        FROM {records} WHERE key IS NOT NULL
        GROUP BY key, topic, window(timestamp, :window)
        HAVING size(collect_set(datacenter)) > 1
        """,
)

WINDOWS: Final = Question(
    name="windows",
    about="Records and bytes of a datacenter in one window.",
    parameters={"window": "5 minutes"},
    is_streamable=True,
    statement="""
        SELECT window(timestamp, :window).start AS window_start, datacenter, topic,
               count(*) AS records, sum(coalesce(length(value), 0)) AS value_bytes
        FROM {records} GROUP BY window(timestamp, :window), datacenter, topic
        """,
)

TOP_KEYS: Final = Question(
    name="top_keys",
    about="The most frequent keys of a window, over all datacenters.",
    parameters={"window": "10 minutes", "limit": 10},
    statement="""
        SELECT * FROM (
          SELECT *, row_number() OVER (
            PARTITION BY window_start, topic ORDER BY records DESC, key) AS place
          FROM (
            SELECT window(timestamp, :window).start AS window_start, topic, key,
                   count(*) AS records, count(DISTINCT datacenter) AS datacenters
            FROM {records} WHERE key IS NOT NULL
            GROUP BY window(timestamp, :window), topic, key))
        WHERE place <= :limit
        """,
)

LATE_DATACENTERS: Final = Question(
    name="late_datacenters",
    about="How far the newest record of a datacenter is behind that of the fastest one. An idle "
    "datacenter looks late too.",
    statement="""
        SELECT *, max(newest) OVER (PARTITION BY topic) - newest AS behind
        FROM (SELECT topic, datacenter, max(timestamp) AS newest, count(*) AS records
              FROM {records} GROUP BY topic, datacenter)
        """,
)

GAPS: Final = Question(
    name="gaps",
    about="Source offsets that are missing between two records (missing > 0) or there twice (-1). "
    "The journals of the links explain `journalled` of them, for `reasons`; compaction and "
    "transactions are reasons for `unexplained` ones.",
    inputs=("records", "journal"),
    statement="""
        WITH found AS (
          SELECT datacenter, topic, partition, previous AS after_offset, offset AS before_offset,
                 offset - previous - 1 AS missing
          FROM (SELECT datacenter, topic, partition, offset,
                       lag(offset) OVER (PARTITION BY datacenter, topic, topic_id, partition
                                         ORDER BY offset, aggregate_offset) AS previous
                FROM {records} WHERE `offset` IS NOT NULL)
          WHERE `offset` - previous <> 1),
        entries AS (
          SELECT datacenter, topic, partition,
                 sort_array(collect_list(struct(source_from, source_to, reason))) AS entries
          FROM {journal}
          WHERE is_current AND kind IN ('lost', 'copied') AND source_to IS NOT NULL
          GROUP BY datacenter, topic, partition),
        named AS (
          SELECT found.*,
                 filter(coalesce(entries, array()), each -> each.source_from < before_offset
                        AND each.source_to > after_offset + 1) AS entries
          FROM found LEFT JOIN entries
            ON found.datacenter <=> entries.datacenter AND found.topic = entries.topic
           AND found.partition = entries.partition),
        counted AS (
          SELECT *, aggregate(
                   entries, struct(after_offset + 1 AS next, 0L AS journalled),
                   (so_far, each) -> struct(
                     greatest(so_far.next, least(each.source_to, before_offset)) AS next,
                     so_far.journalled
                       + greatest(least(each.source_to, before_offset)
                                  - greatest(so_far.next, each.source_from), 0L) AS journalled),
                   so_far -> so_far.journalled) AS journalled
          FROM named)
        SELECT datacenter, topic, partition, after_offset, before_offset, missing, journalled,
               greatest(missing, 0L) - journalled AS unexplained,
               sort_array(array_distinct(transform(entries, each -> each.reason))) AS reasons
        FROM counted
        """,
)

LATEST_PER_KEY: Final = Question(
    name="latest_per_key",
    about="The newest record of each key over all datacenters; a null value is a deletion.",
    statement="""
        SELECT * EXCEPT (place) FROM (
          SELECT *, row_number() OVER (
            PARTITION BY topic, key
            ORDER BY timestamp DESC, datacenter DESC, partition DESC, aggregate_offset DESC)
            AS place
          FROM {records} WHERE key IS NOT NULL) WHERE place = 1
        """,
)

SCHEMA_DRIFT: Final = Question(
    name="schema_drift",
    about="The keys of the JSON objects that a datacenter wrote on one day.",
    statement="""
        SELECT topic, datacenter, date(timestamp) AS day,
               sort_array(json_object_keys(CAST(value AS STRING))) AS fields, count(*) AS records
        FROM {records} WHERE value IS NOT NULL
        GROUP BY topic, datacenter, date(timestamp),
                 sort_array(json_object_keys(CAST(value AS STRING)))
        """,
)

MOVED_KEYS: Final = Question(
    name="moved_keys",
    about="A key is in different partitions, so its records have no common order: producers have "
    "different partitioners, or the number of partitions differs.",
    statement="""
        SELECT topic, key, count(DISTINCT partition) AS partitions,
               sort_array(collect_set(struct(datacenter, partition))) AS places,
               count(*) AS records
        FROM {records} WHERE key IS NOT NULL GROUP BY topic, key
        HAVING count(DISTINCT partition) > 1
        """,
)

RECORD_QUESTIONS: Final = (
    CROSS_DATACENTER_PAIRS,
    DUPLICATES,
    FIRST_COPIES,
    CONFLICTS,
    WINDOWS,
    TOP_KEYS,
    LATE_DATACENTERS,
    GAPS,
    LATEST_PER_KEY,
    SCHEMA_DRIFT,
    MOVED_KEYS,
)
