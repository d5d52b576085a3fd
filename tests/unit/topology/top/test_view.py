"""Rows of `heliograph top` from planted scrapes and status documents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from topology.top.samples import parse_samples, total
from topology.top.show import headline_of, tables_of
from topology.top.view import BROKER_METRICS, MIRROR_METRICS, Snapshot, view_of

BROKER, MIRROR = "http://b", "http://m"

STATUS: dict[str, Any] = {
    "name": "flights",
    "state": "degraded",
    "problems": [{"problem": "broker 2 of jfk does not run"}, {"problem": "other"}],
    "clusters": [
        {
            "name": "jfk",
            "kind": "local",
            "datacenter": "New York",
            "brokers": [
                {"id": 1, "state": "running", "url": BROKER},
                {"id": 2, "state": "failed", "url": None},
            ],
        },
        {"name": "theirs", "kind": "external", "datacenter": "theirs", "brokers": None},
    ],
    "links": [
        {
            "name": "jfk-nyc",
            "target": "nyc",
            "state": "running",
            "reason": None,
            "lag_records": 5,
            "lag_seconds": 1.25,
            "probe": {"state": "ok", "latency_ms": {"p99": 31.0}},
        }
    ],
    "mirrors": [{"cluster": "nyc", "url": MIRROR}],
}


def broker_text(bytes_in: int, committed: int, cpu_seconds: float) -> str:
    return f"""\
# HELP process_cpu_seconds_total CPU time of the process.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total {cpu_seconds}
process_resident_memory_bytes 78000000
kafka_server_brokertopicmetrics_bytesin_total {bytes_in}
kafka_server_brokertopicmetrics_bytesin_total{{topic="a"}} {bytes_in}
kafka_server_replicamanager_leadercount 3
kafka_server_replicamanager_underreplicatedpartitions 2
kafka_controller_kafkacontroller_activecontrollercount 1
kafka_server_socket_server_metrics_connection_count{{listener="A",networkProcessor="0"}} 5
kafka_server_socket_server_metrics_connection_count{{listener="B",networkProcessor="0"}} 2
heliograph_event_loop_delay_seconds{{quantile="0.5"}} 0.001
heliograph_event_loop_delay_seconds{{quantile="0.99"}} 0.05
kafka_consumergroup_members{{consumergroup="boards"}} 2
kafka_consumergroup_lag{{consumergroup="boards",topic="a",partition="0"}} 7
kafka_consumergroup_lag{{consumergroup="boards",topic="a",partition="1"}} 1
kafka_consumergroup_lag{{consumergroup="etl",topic="a",partition="0"}} 90
kafka_consumergroup_group_lag_seconds{{consumergroup="boards",topic="a",partition="0"}} 2.5
kafka_consumergroup_group_lag_seconds{{consumergroup="boards",topic="a",partition="1"}} 1.5
kafka_consumergroup_current_offset{{consumergroup="boards",topic="a",partition="0"}} {committed}
kafka_not_wanted 1
"""


def snapshot(taken_s: float, *, bytes_in: int, committed: int, cpu: float, copied: int) -> Snapshot:
    mirror = f'heliograph_mirror_bytes_copied_total{{link="jfk-nyc",topic="a"}} {copied}\n'
    return Snapshot(
        taken_s=taken_s,
        status=STATUS,
        scrapes={
            BROKER: parse_samples(broker_text(bytes_in, committed, cpu), BROKER_METRICS),
            MIRROR: parse_samples(mirror, MIRROR_METRICS),
        },
    )


BEFORE = snapshot(10.0, bytes_in=1_000, committed=50, cpu=3.0, copied=0)
NOW = snapshot(12.0, bytes_in=401_000, committed=70, cpu=4.0, copied=3_000)


def test_only_wanted_samples_are_parsed() -> None:
    samples = NOW.scrapes[BROKER]
    assert "kafka_not_wanted" not in samples
    assert total(samples, "kafka_consumergroup_lag") == 98
    assert total(samples, "kafka_consumergroup_lag", {"consumergroup": "boards"}) == 8
    assert total(samples, "absent") is None


def test_rows_have_rates_of_counters_and_values_of_gauges() -> None:
    view = view_of(NOW, BEFORE)
    cluster, theirs = view.clusters
    assert (cluster.brokers, cluster.controller, cluster.under_replicated) == ("1/2", 1, 2)
    assert cluster.bytes_in_per_s == 200_000
    assert (theirs.brokers, theirs.bytes_in_per_s) == ("?", None)
    broker, failed = view.brokers
    assert (broker.cpu_share, broker.leaders, broker.connections) == (0.5, 3, 7)
    assert broker.loop_delay_s == 0.05
    assert (failed.state, failed.cpu_share, failed.memory_bytes) == ("failed", None, None)
    (link,) = view.links
    assert (link.bytes_per_s, link.records_per_s, link.probe_p99_ms) == (1_500, None, 31.0)
    assert [each.lag_seconds for each in view.groups] == [None, 2.5]
    assert [(each.name, each.lag_records, each.committed_per_s) for each in view.groups] == [
        ("etl", 90, None),
        ("boards", 8, 10),
    ]


def test_nothing_is_known_of_a_rate_without_two_sound_looks() -> None:
    assert view_of(NOW).brokers[0].cpu_share is None
    restarted = replace(BEFORE, taken_s=14.0)
    assert view_of(restarted, NOW).brokers[0].cpu_share is None
    assert view_of(replace(NOW, scrapes={}), BEFORE).brokers[0].memory_bytes is None


def test_tables_show_what_is_unknown_as_such() -> None:
    view = view_of(NOW, BEFORE)
    tables = {each.title: each for each in tables_of(view)}
    for each in tables.values():
        assert all(len(row) == len(each.columns) for row in each.rows)
    assert tables["Clusters"].rows[0][:7] == (
        *("jfk", "local", "1/2", "1"),
        *("200.0 kB", "-", "-"),
    )
    assert tables["Brokers"].rows[0][2:4] == ("50%", "78.0 MB")
    assert tables["Links"].rows[0][2:5] == ("5", "1.2 s", "-")
    assert headline_of(view) == "flights: degraded; broker 2 of jfk does not run (and 1 more)"
