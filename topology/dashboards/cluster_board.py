"""The dashboard of clusters: what brokers report. Pure.

Targets have the labels of targets.py: `cluster`, `datacenter`, `role` and `broker`.
"""

from __future__ import annotations

from typing import Final

from topology.dashboards.panels import Board, Panel, Query, Variable
from topology.dashboards.shorthands import OF_CLUSTER, REPLICAS, rate, stat

_TRAFFIC: Final = "kafka_server_brokertopicmetrics_"
_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_REQUESTS: Final = "kafka_network_requestmetrics_"
_OF_TOPIC: Final = '{cluster=~"$cluster",topic=~"$topic"}'

CLUSTER: Final = Board(
    "heliograph-cluster",
    "Heliograph: cluster",
    (
        Variable("cluster", f"{REPLICAS}leadercount", "cluster"),
        Variable("topic", "kafka_topic_partitions", "topic"),
    ),
    (
        stat("Brokers", f"count({REPLICAS}leadercount{OF_CLUSTER})", "Brokers that are scraped."),
        stat(
            "Controllers",
            f"sum({_CONTROLLER}activecontrollercount{OF_CLUSTER})",
            "One per cluster.",
        ),
        stat(
            "Offline partitions",
            f"sum({_CONTROLLER}offlinepartitionscount{OF_CLUSTER})",
            "Partitions without a leader: neither read nor written.",
            1,
        ),
        stat(
            "Under-replicated",
            f"sum({REPLICAS}underreplicatedpartitions{OF_CLUSTER})",
            "Partitions with a replica that is not in sync.",
            1,
        ),
        stat(
            "Under min ISR",
            f"sum({REPLICAS}underminisrpartitioncount{OF_CLUSTER})",
            "Partitions that refuse acks=all.",
            1,
        ),
        stat(
            "Offline log dirs",
            f"sum(kafka_log_logmanager_offlinelogdirectorycount{OF_CLUSTER})",
            "Log directories that failed.",
            1,
        ),
        Panel(
            "Bytes in",
            (Query(rate(f"{_TRAFFIC}bytesin_total", _OF_TOPIC, "topic"), "{{topic}}"),),
            "Bytes per second from producers.",
            "Bps",
        ),
        Panel(
            "Bytes out",
            (Query(rate(f"{_TRAFFIC}bytesout_total", _OF_TOPIC, "topic"), "{{topic}}"),),
            "Bytes per second to consumers.",
            "Bps",
        ),
        Panel(
            "Records in",
            (Query(rate(f"{_TRAFFIC}messagesin_total", _OF_TOPIC, "topic"), "{{topic}}"),),
            "Records per second from producers.",
            "ops",
        ),
        Panel(
            "Requests",
            (Query(rate(f"{_REQUESTS}requests_total", OF_CLUSTER, "request"), "{{request}}"),),
            "Requests per second, by API.",
            "ops",
        ),
        Panel(
            "Request time, 99 %",
            (
                Query(
                    f"max by (request) ({_REQUESTS}totaltimems"
                    '{cluster=~"$cluster",quantile="0.99"})',
                    "{{request}}",
                ),
            ),
            "From the arrival of a request until its response is ready. Fetch includes its wait.",
            "ms",
        ),
        Panel(
            "Produce time by part, 99 %",
            tuple(
                Query(
                    f'max({_REQUESTS}{part}{{cluster=~"$cluster",request="Produce",quantile="0.99"}})',
                    part.removesuffix("timems"),
                )
                for part in ("requestqueuetimems", "localtimems", "remotetimems")
            ),
            "Queue: the event loop is busy. Local: the handler. Remote: fsync and followers.",
            "ms",
        ),
        Panel(
            "Waiting requests",
            (
                Query(
                    "sum by (delayedOperation) "
                    f"(kafka_server_delayedoperationpurgatory_purgatorysize{OF_CLUSTER})",
                    "{{delayedOperation}}",
                ),
            ),
            "Requests that wait for a commit, for records or for members.",
        ),
        Panel(
            "ISR changes",
            tuple(
                Query(
                    rate(f"{REPLICAS}{name}_total", OF_CLUSTER, "broker"), f"{{{{broker}}}} {name}"
                )
                for name in ("isrshrinks", "isrexpands", "failedisrupdates")
            ),
            "Changes per second. Shrinks without expands mean a lost replica.",
            "ops",
        ),
        Panel(
            "Event loop delay",
            (
                Query(
                    'max by (broker) (heliograph_event_loop_delay_seconds{cluster=~"$cluster",'
                    'quantile="0.99"})',
                    "broker {{broker}}",
                ),
            ),
            "99 % of callbacks ran at most so late. Above 100 ms a broker is overloaded.",
            "s",
        ),
        Panel(
            "Event loop idle",
            (
                Query(
                    "min by (broker) "
                    f"(kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent{OF_CLUSTER})",
                    "broker {{broker}}",
                ),
            ),
            "Idle share of each broker's event loop, which has one core.",
            "percentunit",
        ),
        Panel(
            "Free disk space",
            (
                Query(
                    f"min by (broker, logDirectory) (heliograph_log_dir_usable_bytes{OF_CLUSTER})",
                    "{{broker}} {{logDirectory}}",
                ),
            ),
            "Space that is left for each log directory.",
            "bytes",
        ),
        Panel(
            "Log size",
            (Query(f"sum by (topic) (kafka_log_log_size{_OF_TOPIC})", "{{topic}}"),),
            "Bytes of all replicas of a topic.",
            "bytes",
        ),
        Panel(
            "Connections",
            (
                Query(
                    "sum by (broker, listener) "
                    f"(kafka_server_socket_server_metrics_connection_count{OF_CLUSTER})",
                    "{{broker}} {{listener}}",
                ),
            ),
            "Open connections of each listener.",
        ),
        Panel(
            "Transactions",
            (Query(f"sum by (state) (heliograph_transactions{OF_CLUSTER})", "{{state}}"),),
            "Transactional ids by state. Ongoing ones hold read_committed consumers back.",
        ),
        Panel(
            "Resident memory",
            (
                Query(
                    "sum by (broker) "
                    '(process_resident_memory_bytes{cluster=~"$cluster",role="broker"})',
                    "broker {{broker}}",
                ),
            ),
            "Memory of each broker's process.",
            "bytes",
        ),
        Panel(
            "Throttled replication",
            tuple(
                Query(
                    f"sum by (broker) (kafka_server_{side}replication_byte_rate{OF_CLUSTER})",
                    f"{{{{broker}}}} {side}",
                )
                for side in ("leader", "follower")
            ),
            "Bytes per second of replicas under a replication quota.",
            "Bps",
        ),
    ),
)
