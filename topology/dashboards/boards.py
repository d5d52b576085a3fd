"""The dashboards of groups, links and aggregates, and the list of all. Pure."""

from __future__ import annotations

from typing import Final

from topology.dashboards.cluster_board import CLUSTER
from topology.dashboards.panels import Board, Panel, Query, Variable
from topology.dashboards.shorthands import OF_CLUSTER, REPLICAS, rate, stat

_MIRROR: Final = "heliograph_mirror_"
_OF_LINK: Final = '{link=~"$link"}'

GROUP: Final = Board(
    "heliograph-group",
    "Heliograph: consumer groups",
    (
        Variable("cluster", f"{REPLICAS}leadercount", "cluster"),
        Variable("group", "kafka_consumergroup_current_offset", "consumergroup"),
    ),
    (
        Panel(
            "Lag",
            (
                Query(
                    "sum by (consumergroup, topic) "
                    '(kafka_consumergroup_lag{cluster=~"$cluster",consumergroup=~"$group"})',
                    "{{consumergroup}} {{topic}}",
                ),
            ),
            "Committed records that a group has not read.",
        ),
        Panel(
            "Lag in seconds",
            (
                Query(
                    "max by (consumergroup, topic) (kafka_consumergroup_group_lag_seconds"
                    '{cluster=~"$cluster",consumergroup=~"$group"})',
                    "{{consumergroup}} {{topic}}",
                ),
            ),
            "Age of the first record that a group has not read, where it is furthest behind.",
            "s",
        ),
        Panel(
            "Consumed",
            (
                Query(
                    "sum by (consumergroup, topic) (rate(kafka_consumergroup_current_offset"
                    '{cluster=~"$cluster",consumergroup=~"$group"}[5m]))',
                    "{{consumergroup}} {{topic}}",
                ),
            ),
            "How fast committed offsets move, in records per second.",
            "ops",
        ),
        Panel(
            "Members",
            (
                Query(
                    "sum by (consumergroup) "
                    '(kafka_consumergroup_members{cluster=~"$cluster",consumergroup=~"$group"})',
                    "{{consumergroup}}",
                ),
            ),
            "Members of each group. 0 with a growing lag: nobody consumes.",
        ),
        Panel(
            "Groups by state",
            (
                Query(
                    "sum by (protocol, state) "
                    f"(kafka_server_group_coordinator_metrics_group_count{OF_CLUSTER})",
                    "{{protocol}} {{state}}",
                ),
            ),
            "A group that stays in PreparingRebalance or Reconciling does not consume.",
        ),
    ),
)

LINK: Final = Board(
    "heliograph-link",
    "Heliograph: links",
    (Variable("link", f"{_MIRROR}link_state", "link"),),
    (
        stat(
            "Stopped partitions",
            f'sum({_MIRROR}failed{{link=~"$link"}})',
            "Partitions that wait for an operator.",
            1,
        ),
        stat(
            "Missing rights",
            f'sum({_MIRROR}rights_missing{{link=~"$link"}})',
            "Operations that a cluster refused.",
            1,
        ),
        Panel(
            "State",
            (
                Query(
                    f'max by (link, state) ({_MIRROR}link_state{{link=~"$link"}})',
                    "{{link}} {{state}}",
                ),
            ),
            "1 for the state of each link.",
        ),
        Panel(
            "Lag",
            (Query(f'sum by (link) ({_MIRROR}lag_records{{link=~"$link"}})', "{{link}}"),),
            "Source records that are not on the target yet.",
        ),
        Panel(
            "Lag in seconds",
            (Query(f'max by (link) ({_MIRROR}lag_seconds{{link=~"$link"}})', "{{link}}"),),
            "Age of the oldest record that is not on the target yet.",
            "s",
        ),
        Panel(
            "Records copied",
            (Query(rate(f"{_MIRROR}records_copied_total", '{link=~"$link"}', "link"), "{{link}}"),),
            "Records per second that the target acknowledged.",
            "ops",
        ),
        Panel(
            "Bytes copied",
            (Query(rate(f"{_MIRROR}bytes_copied_total", '{link=~"$link"}', "link"), "{{link}}"),),
            "Bytes per second, as compressed.",
            "Bps",
        ),
        Panel(
            "Replication latency, 99 %",
            (
                Query(
                    "histogram_quantile(0.99, sum by (link, le) (rate("
                    f'{_MIRROR}replication_latency_seconds_bucket{{link=~"$link"}}[5m])))',
                    "{{link}}",
                ),
            ),
            "From a record's timestamp to its acknowledgement by the target.",
            "s",
        ),
        Panel(
            "Batches by path",
            (
                Query(
                    f'sum by (link, path) (rate({_MIRROR}batches_total{{link=~"$link"}}[5m]))',
                    "{{link}} {{path}}",
                ),
            ),
            "Other paths than passthrough open batches and cost CPU.",
            "ops",
        ),
        Panel(
            "Audit age",
            (Query(f'max by (link) ({_MIRROR}audit_age_seconds{{link=~"$link"}})', "{{link}}"),),
            "How old the oldest batch is that the audit has not compared.",
            "s",
        ),
    ),
)

AGGREGATE: Final = Board(
    "heliograph-aggregate",
    "Heliograph: aggregates",
    (Variable("link", "heliograph_offset_map_ready", "link"),),
    (
        stat("Merged topics", "sum(heliograph_merged_topics)", "Topics of several datacenters."),
        stat(
            "Maps not ready",
            'sum(1 - heliograph_offset_map_ready{link=~"$link"})',
            "Links whose offset map was not read to its end.",
            1,
        ),
        stat(
            "Lost by probes",
            'sum(heliograph_probe_lost_records{link=~"$link"})',
            "Records of probes that are known to be lost.",
            1,
        ),
        Panel(
            "Map age",
            (
                Query(
                    'max by (link) (heliograph_offset_map_age_seconds{link=~"$link"})', "{{link}}"
                ),
            ),
            "Time since the last read of the map topic.",
            "s",
        ),
        Panel(
            "Mapped partitions",
            (Query('sum by (link) (heliograph_offset_map_partitions{link=~"$link"})', "{{link}}"),),
            "Source partitions whose offsets can be translated.",
        ),
        Panel(
            "Probe latency, 99 %",
            (
                Query(
                    "histogram_quantile(0.99, sum by (link, le) (rate("
                    'heliograph_probe_latency_seconds_bucket{link=~"$link"}[5m])))',
                    "{{link}}",
                ),
            ),
            "From the sending of a probe's record to its arrival on the aggregate.",
            "s",
        ),
        Panel(
            "Probe records",
            tuple(
                Query(
                    rate(f"heliograph_probe_{name}_records_total", _OF_LINK, "link"),
                    f"{{{{link}}}} {name}",
                )
                for name in ("sent", "received", "doubled", "out_of_order", "altered")
            ),
            "Sent and received agree; the others stay 0.",
            "ops",
        ),
    ),
)

BOARDS: Final = (CLUSTER, GROUP, LINK, AGGREGATE)
