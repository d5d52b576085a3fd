"""`heliograph dashboards` of a real deployment: every query and every alert has data to work on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_cluster.client.admin.group_offsets import CommittedOffset, commit_offsets
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from tests.support import promql
from tests.support.authority import Authority
from tests.support.heliograph_command import HeliographCommand
from tests.support.producing import produce_to
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import eventually
from tests.support.scraping import scrape
from topology.dashboards.alerts import ALERTS

pytestmark = pytest.mark.real

TOPOLOGY = """\
name: shown
zookeepers: [{{name: zookeeper, port: {0}}}]
clusters:
  - name: jfk
    listeners:
      - {{name: PLAIN, inter_broker: true}}
      - {{name: TLS, security_protocol: SSL, tls: {{keystore_file: {5}}}}}
    brokers: [{{id: 1, ports: {{PLAIN: {1}, TLS: {4}}}}}]
    http: {{base_port: {2}}}
  - {{name: nyc, kind: aggregate, brokers: [{{id: 1, port: {3}}}]}}
links:
  - {{source: jfk, target: nyc, topics: [flights]}}
"""
VARIABLES = dict.fromkeys(("cluster", "topic", "group", "link"), ".*")

STRIMZI = (
    "kafka_server_replicamanager_leadercount",
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kafka_cluster_partition_atminisr",
    "kafka_cluster_partition_underminisr",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "process_open_fds",
    "kafka_server_brokertopicmetrics_bytesin_total",
    "kafka_server_brokertopicmetrics_bytesout_total",
    "kafka_server_brokertopicmetrics_messagesin_total",
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "kafka_server_kafkaserver_linux_disk_write_bytes",
    "kafka_server_kafkaserver_linux_disk_read_bytes",
    "kafka_server_socket_server_metrics_connection_count",
    "kafka_log_log_size",
    "kafka_cluster_partition_replicascount",
    "kafka_server_replicamanager_underminisrpartitioncount",
    "kafka_log_logmanager_offlinelogdirectorycount",
    "kafka_topic_partitions",
    "kafka_topic_partition_replicas",
    "kafka_topic_partition_in_sync_replica",
    "kafka_topic_partition_under_replicated_partition",
    "kafka_topic_partition_leader_is_preferred",
    "kafka_topic_partition_current_offset",
    "kafka_topic_partition_oldest_offset",
    "kafka_broker_info",
    "kafka_consumergroup_current_offset",
    "kafka_consumergroup_lag",
)
"""What the panels and alerts of Strimzi for brokers, and its kafka_exporter dashboard, query. Left
out: JVM, container and kubelet."""
CHOSEN_BY = ("namespace", "strimzi_io_cluster", "kubernetes_pod_name")

Series = dict[str, list[dict[str, str]]]


@pytest.fixture
def command(tmp_path: Path) -> Iterator[HeliographCommand]:
    command = HeliographCommand(tmp_path)
    yield command
    if command.state_dir.exists():
        command.run("down", "--purge")


def scraped(directory: Path) -> Series:
    """Every series of every target, with the labels that Prometheus adds."""
    found: Series = {}
    for each in json.loads((directory / "heliograph-targets.json").read_text()):
        (address,) = each["targets"]
        at = {**each["labels"], "instance": address, "job": "heliograph"}
        found.setdefault("up", []).append(at)
        for name, samples in scrape(f"http://{address}").samples.items():
            found.setdefault(name, []).extend({**at, **labels} for labels, _ in samples)
    return found


def expressions(directory: Path) -> list[str]:
    """Those of every panel as it was written, and of every alert."""
    boards = [json.loads(path.read_text()) for path in directory.glob("heliograph-*.json")]
    return [
        target["expr"]
        for board in boards
        if isinstance(board, dict)
        for panel in board["panels"]
        for target in panel["targets"]
    ] + [each.expr for each in ALERTS]


async def use(bootstrap: str) -> None:
    """Write some records, and commit the offset of a group."""
    async with KafkaClient(bootstrap) as client:
        await client.create_topics([NewTopic(name="flights", partitions=1)])
        at = TopicPartition("flights", 0)
        await produce_to(client, at, encode_batch([NewRecord(1, b"k", b"v")]))
        await commit_offsets(client, "g", {at: CommittedOffset(0, -1, "")})


def test_every_panel_and_every_alert_has_data(command: HeliographCommand, tmp_path: Path) -> None:
    keystore = Authority(tmp_path / "tls").issue("broker").pem
    command.file.write_text(TOPOLOGY.format(*quiet_ports(5), keystore))
    status = command.up()
    asyncio.run(use(status["clusters"][0]["bootstrap"]))
    directory = tmp_path / "monitoring"
    written = command.run("dashboards", "--directory", str(directory))["files"]
    assert sorted(written) == sorted(str(path) for path in directory.iterdir())
    wanted = expressions(directory)
    assert len(wanted) > 50
    problems: list[str] = []
    series: Series = {}

    async def has_all() -> bool:
        # The first copies, probes and audits take some seconds.
        series.update(await asyncio.to_thread(scraped, directory))
        problems[:] = [each for expr in wanted for each in promql.problems(expr, series, VARIABLES)]
        return not problems

    try:
        asyncio.run(eventually(has_all))
    except TimeoutError:
        pytest.fail("\n".join(problems))
    for name in STRIMZI:
        assert series.get(name), f"{name} has no sample"
        assert all(label in labels for labels in series[name] for label in CHOSEN_BY), name
