"""Questions about offsets: of groups, of logs, of the offset map; also about the audit.

The inputs are the tables of the data source with these names. Groups and ends are of one moment,
asked one after the other, so a difference is at most as wrong as what moved meanwhile.
"""

from __future__ import annotations

from typing import Final

from spark_global.catalogue.completeness import COMPLETE_THROUGH, LINK_LATENCY
from spark_global.catalogue.question import Question

GROUP_LAG: Final = Question(
    name="group_lag",
    about="Records that a group has not read, per topic; `worst_datacenter` holds the most.",
    inputs=("groups",),
    statement="""
        SELECT `group`, side, topic, sum(lag) AS lag, max_by(datacenter, lag) AS worst_datacenter,
               max(lag) AS worst_partition_lag
        FROM (SELECT *, greatest(last_stable_offset - committed_offset, 0) AS lag FROM {groups})
        GROUP BY `group`, side, topic
        """,
)

TRANSLATED_GROUPS: Final = Question(
    name="translated_groups",
    about="Where a group of a source goes on in the copy; null if the copy does not reach so far.",
    inputs=("groups", "offset_map", "source_end_offsets"),
    statement="""
        SELECT g.`group`, g.datacenter, g.topic, g.partition, g.aggregate_topic,
               g.committed_offset,
               CASE WHEN g.committed_offset <= max(e.mapped_source_offset) THEN coalesce(
                 min(m.aggregate_offset + greatest(g.committed_offset - m.offset, 0))
                   FILTER (WHERE m.offset + m.records > g.committed_offset),
                 max(m.aggregate_offset + m.records)) END AS translated_offset
        FROM {groups} g
        JOIN {source_end_offsets} e USING (datacenter, topic, partition, aggregate_topic)
        LEFT JOIN {offset_map} m USING (datacenter, topic, partition, aggregate_topic)
        WHERE g.side = 'source'
        GROUP BY ALL
        """,
)

LOSS_NOW: Final = Question(
    name="loss_now",
    about="Records that would be lost if a datacenter were lost now: produced, not mirrored; "
    "`seconds` is the age of the oldest of them, at most. Null is unknown.",
    inputs=("source_end_offsets", "completeness"),
    statement="""
        WITH stated AS (
          SELECT datacenter, topic, partition,
                 if(count(complete_through) = count(*), min(complete_through), NULL)
                   AS complete_through
          FROM {completeness} GROUP BY datacenter, topic, partition),
        found AS (
          SELECT datacenter, topic, complete_through, last_stable_offset,
                 coalesce(mapped_source_offset,
                          if(last_stable_offset = log_start_offset, last_stable_offset, NULL))
                   AS mirrored
          FROM {source_end_offsets} LEFT JOIN stated USING (datacenter, topic, partition)),
        aged AS (
          SELECT datacenter, topic, mirrored,
                 greatest(last_stable_offset - mirrored, 0) AS records,
                 CASE WHEN last_stable_offset <= mirrored THEN 0.0D
                      WHEN mirrored IS NOT NULL AND complete_through IS NOT NULL
                      THEN greatest(unix_millis(current_timestamp())
                                    - unix_millis(complete_through), 0L) / 1000.0D END AS seconds
          FROM found)
        SELECT datacenter, topic, count(*) AS partitions, sum(records) AS records,
               if(count(seconds) = count(*), max(seconds), NULL) AS seconds,
               count_if(mirrored IS NULL) AS unknown_partitions
        FROM aged GROUP BY datacenter, topic
        """,
)
"""What a mirror states gives the age: all that the source had committed before `complete_through`
is copied, whatever timestamps the records have. So it needs no read of a source's records, and is
too great by the age of the statement, about a second."""

REPLAY_IF_LOST: Final = Question(
    name="replay_if_lost",
    about="If a datacenter were lost now: `skipped` records that a group has read are in no copy, "
    "and `unread` ones are produced, not read and in no copy.",
    inputs=("groups", "source_end_offsets"),
    statement="""
        SELECT g.`group`, g.datacenter, g.topic,
               sum(greatest(g.committed_offset - e.mapped_source_offset, 0)) AS skipped,
               sum(greatest(e.last_stable_offset
                            - greatest(g.committed_offset, e.mapped_source_offset), 0)) AS unread
        FROM {groups} g
        JOIN {source_end_offsets} e USING (datacenter, topic, partition, aggregate_topic)
        WHERE g.side = 'source'
        GROUP BY g.`group`, g.datacenter, g.topic
        """,
)

PARTITION_DRIFT: Final = Question(
    name="partition_drift",
    about="The number of partitions of a topic differs between datacenters.",
    inputs=("end_offsets",),
    statement="""
        SELECT topic, map_from_entries(sort_array(collect_list(struct(datacenter, partitions))))
                 AS partitions_by_datacenter
        FROM (SELECT topic, datacenter, count(DISTINCT partition) AS partitions
              FROM {end_offsets} WHERE datacenter IS NOT NULL GROUP BY topic, datacenter)
        GROUP BY topic HAVING count(DISTINCT partitions) > 1
        """,
)

CONFIG_DRIFT: Final = Question(
    name="config_drift",
    about="A config of a topic has different values at its datacenters; beside them those of the "
    "copies.",
    inputs=("topic_configs",),
    statement="""
        SELECT topic, config,
               sort_array(collect_set(struct(datacenter, config_value))
                            FILTER (WHERE side = 'source')) AS sources,
               sort_array(collect_set(struct(aggregate_topic, config_value))
                            FILTER (WHERE side = 'aggregate')) AS copies
        FROM {topic_configs} GROUP BY topic, config
        HAVING count(DISTINCT struct(config_value)) FILTER (WHERE side = 'source') > 1
        """,
)

AUDIT_BUCKETS: Final = Question(
    name="audit_buckets",
    about="Ten minutes of record time of a datacenter, and what the audit says of them. OPEN until "
    "the datacenter is complete and audited through their end.",
    inputs=("audit",),
    statement="""
        SELECT *, CASE WHEN lost > 0 THEN 'LOST' WHEN altered > 0 THEN 'ALTERED'
                       WHEN duplicated > 0 THEN 'DUPLICATED' WHEN foreign_records > 0 THEN 'FOREIGN'
                       WHEN unverified > 0 THEN 'UNVERIFIED'
                       WHEN is_open THEN 'OPEN' ELSE 'COMPLETE' END AS status
        FROM (SELECT topic, datacenter, bucket_start,
                     sum(if(verdict IN ('COMPLETE', 'CLEANED'), records_count, 0)) AS mirrored,
                     sum(if(verdict = 'LOST', records_count, 0)) AS lost,
                     sum(if(verdict = 'ALTERED', records_count, 0)) AS altered,
                     sum(if(verdict = 'DUPLICATED', records_count, 0)) AS duplicated,
                     sum(if(verdict = 'FOREIGN', records_count, 0)) AS foreign_records,
                     sum(if(verdict = 'EXPECTED GAP', records_count, 0)) AS expected_gap,
                     sum(if(verdict IN ('UNVERIFIED', 'LATE'), records_count, 0)) AS unverified,
                     max(batches_waiting) AS batches_waiting,
                     min(complete_through) AS complete_through,
                     NOT bool_and(complete_through IS NOT NULL AND (bucket_start IS NULL
                       OR least(complete_through, audited_at) >= bucket_start
                                                                 + INTERVAL 10 MINUTES)) AS is_open
              FROM {audit} GROUP BY topic, datacenter, bucket_start)
        """,
)

HEARTBEAT_MATRIX: Final = Question(
    name="heartbeat_matrix",
    about="The newest heartbeat of MirrorMaker 2's format per pair of clusters and where it was "
    "read; `records` are those of the topic `heartbeats`.",
    statement="""
        SELECT source, target, datacenter, max(sent) AS newest
        FROM (SELECT datacenter,
                     CAST(substring(key, 3, n) AS STRING) AS source,
                     CAST(substring(key, 5 + n) AS STRING) AS target,
                     timestamp_millis(CAST(conv(hex(substring(value, 3, 8)), 16, 10) AS BIGINT))
                       AS sent
              FROM (SELECT *, CAST(conv(hex(substring(key, 1, 2)), 16, 10) AS INT) AS n
                    FROM {records} WHERE key IS NOT NULL AND value IS NOT NULL))
        GROUP BY source, target, datacenter
        """,
)

OFFSET_QUESTIONS: Final = (
    GROUP_LAG,
    TRANSLATED_GROUPS,
    LOSS_NOW,
    REPLAY_IF_LOST,
    PARTITION_DRIFT,
    CONFIG_DRIFT,
    COMPLETE_THROUGH,
    LINK_LATENCY,
    AUDIT_BUCKETS,
    HEARTBEAT_MATRIX,
)
