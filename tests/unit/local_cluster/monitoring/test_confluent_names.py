"""Confluent's names: what is renamed, and what stays as it is."""

from __future__ import annotations

import pytest

from local_cluster.monitoring import request_rows, topic_rows
from local_cluster.monitoring.confluent_names import (
    RENAMED,
    Names,
    named_families,
    named_head,
    named_lines,
)
from local_cluster.prometheus_text import Family, Head, Sample, counter, gauge, render_family

BYTES = next(each for each in topic_rows.HEADS if each.name.endswith("bytesin_total"))
LINES = f'{BYTES.name} 3\n{BYTES.name}{{topic="t"}} 2\n'


def confluent(family: Family) -> str:
    return "".join(render_family(each) for each in named_families(family, Names.confluent))


def test_rows_get_the_name_in_every_line() -> None:
    name = "kafka_server_brokertopicmetrics_bytesinpersec"
    assert named_head(BYTES, Names.confluent) == BYTES._replace(name=name)
    assert named_lines(LINES, BYTES, Names.confluent) == f'{name} 3\n{name}{{topic="t"}} 2\n'
    assert named_lines(LINES, BYTES, Names.usual) is LINES
    assert named_head(BYTES, Names.usual) is BYTES


def test_a_topic_with_the_name_of_a_metric_keeps_it() -> None:
    line = f'{BYTES.name}{{topic="{BYTES.name}"}} 2\n'
    assert f'topic="{BYTES.name}"' in named_lines(line, BYTES, Names.confluent)


def test_what_both_name_alike_is_not_copied() -> None:
    head = Head("kafka_log_log_size", "gauge", "Bytes.")
    assert named_lines(LINES, head, Names.confluent) is LINES
    ours = gauge("heliograph_log_dir_full", "Full.", Sample(0, {"logDirectory": "/d"}))
    assert list(named_families(ours, Names.confluent)) == [ours]


def test_labels_are_in_lower_case() -> None:
    at = {"listener": "PLAIN", "networkProcessor": "0"}
    text = confluent(
        gauge("kafka_server_socket_server_metrics_connection_count", "Open.", Sample(1, at))
    )
    assert text.splitlines()[-1] == (
        "kafka_server_socketservermetrics_connection_count"
        '{listener="PLAIN",network_processor="0"} 1'
    )


def test_the_type_of_a_quota_is_in_the_name() -> None:
    of = {"user": "alice", "clientId": "loader"}
    family = gauge(
        "kafka_server_quota_throttle_time",
        "Wait.",
        Sample(1, {"resource": "Produce", **of}),
        Sample(2, {"resource": "ControllerMutation", **of}),
        Sample(3, {"resource": "Request", "user": "alice"}),
    )
    lines = [line for line in confluent(family).splitlines() if not line.startswith("#")]
    assert lines == [
        'kafka_server_produce_throttle_time{user="alice",client_id="loader"} 1',
        'kafka_server_request_throttle_time{user="alice"} 3',
        'kafka_server_quota_throttle_time{resource="ControllerMutation",user="alice",'
        'client_id="loader"} 2',
    ]
    assert list(named_families(family, Names.usual)) == [family]


def test_two_metrics_never_get_one_name() -> None:
    assert len({*RENAMED.values()}) == len(RENAMED)
    assert not {*RENAMED.values()} & RENAMED.keys()


@pytest.mark.parametrize("head", [*topic_rows.HEADS, *request_rows.HEADS])
def test_every_counter_of_kafka_in_rows_is_in_the_table(head: Head) -> None:
    is_count = head.name.endswith("timems_count")  # Confluent's has the name of its quantiles
    if head.kind == "counter" and not is_count:
        assert head.name in RENAMED


def test_a_counter_stays_a_counter() -> None:
    family = counter("kafka_server_replicamanager_isrshrinks_total", "Shrinks.", Sample(1))
    assert "# TYPE kafka_server_replicamanager_isrshrinkspersec counter" in confluent(family)
