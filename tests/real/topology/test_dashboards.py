"""`heliograph dashboards` of a real deployment: every query and every alert has data to work on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_cluster.client.admin.client_quotas import QuotaChange, alter_client_quotas
from local_cluster.client.admin.group_offsets import CommittedOffset, commit_offsets
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import FetchPosition, NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from tests.support import promql
from tests.support.authority import Authority
from tests.support.board_metrics import board_metrics
from tests.support.heliograph_command import HeliographCommand
from tests.support.producing import produce_to
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import eventually
from tests.support.scraping import scrape
from topology.dashboards.alerts import ALERTS

pytestmark = pytest.mark.real

TOPOLOGY = """\
name: shown
http_security: {{token: {{file: token}}}}
supervisors: {{port: {6}}}
zookeepers: [{{name: zookeeper, host: 127.0.1.1, port: {0}}}]
clusters:
  - name: jfk
    listeners:
      - {{name: PLAIN, inter_broker: true}}
      - {{name: TLS, security_protocol: SSL, tls: {{keystore_file: {5}}}}}
    brokers: [{{id: 1, host: 127.0.1.1, ports: {{PLAIN: {1}, TLS: {4}}}}}]
    http: {{base_port: {2}}}
  - {{name: nyc, kind: aggregate, brokers: [{{id: 1, host: 127.0.1.1, port: {3}}}]}}
links:
  - {{source: jfk, target: nyc, topics: [flights], groups: {{sync: true}}}}
"""
TOKEN = "the-token-of-dashboards-0123456789"
VARIABLES = dict.fromkeys(("cluster", "topic", "group", "link"), ".*")

CHOSEN_BY = ("namespace", "strimzi_io_cluster", "kubernetes_pod_name")

Series = dict[str, list[dict[str, str]]]


@pytest.fixture
def command(tmp_path: Path) -> Iterator[HeliographCommand]:
    command = HeliographCommand(tmp_path)
    yield command
    if command.state_dir.exists():
        command.run("down", "--purge")


def scraped(directory: Path, query: str = "") -> Series:
    """Every series of every target, with the labels that Prometheus adds."""
    found: Series = {}
    for each in json.loads((directory / "heliograph-targets.json").read_text()):
        (address,) = each["targets"]
        at = {**each["labels"], "instance": address, "job": "heliograph"}
        found.setdefault("up", []).append(at)
        for name, samples in scrape(f"http://{address}", query, token=TOKEN).samples.items():
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


AT = TopicPartition("flights", 0)
QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
ANYBODY = (("user", None), ("client-id", None))


async def prepare(bootstrap: str) -> None:
    """Create a topic, and quotas that nobody reaches."""
    async with KafkaClient(bootstrap) as client:
        await client.create_topics([NewTopic(name=AT.topic, partitions=1)])
        await alter_client_quotas(client, [QuotaChange(ANYBODY, each, 1e6) for each in QUOTAS])


async def use(bootstrap: str) -> None:
    """Write and read a record, and commit the offset of a group."""
    async with KafkaClient(bootstrap) as client:
        await produce_to(client, AT, encode_batch([NewRecord(1, b"k", b"v")]))
        await client.fetch(1, {AT: FetchPosition(0)}, wait_ms_max=0)
        await commit_offsets(client, "g", {AT: CommittedOffset(0, -1, "")})


def missing(series: Series, family: str) -> list[str]:
    """What boards of a family query, and no series has with all labels."""
    return [
        f"{board}: {each.name} {each.labels}"
        for board, metrics in board_metrics().items()
        if board.startswith(family)
        for each in metrics
        if each.is_ours and not each.is_in(series.get(each.name, ()))
    ]


def test_every_panel_and_every_alert_has_data(command: HeliographCommand, tmp_path: Path) -> None:
    ports = quiet_ports(6)
    (tmp_path / "token").write_text(TOKEN)
    keystore = Authority(tmp_path / "tls").issue("broker").pem
    command.file.write_text(TOPOLOGY.format(*ports[:5], keystore, ports[5]))
    status = command.up()
    bootstrap = status["clusters"][0]["bootstrap"]
    asyncio.run(prepare(bootstrap))
    directory = tmp_path / "monitoring"
    written = command.run("dashboards", "--directory", str(directory))["files"]
    assert sorted(written) == sorted(str(path) for path in directory.iterdir())
    wanted = expressions(directory)
    assert len(wanted) > 50
    problems: list[str] = []
    series: Series = {}

    async def has_all() -> bool:
        # The first copies, probes and audits take some seconds.
        await use(bootstrap)
        series.update(await asyncio.to_thread(scraped, directory))
        problems[:] = [each for expr in wanted for each in promql.problems(expr, series, VARIABLES)]
        problems.extend(missing(series, "strimzi-"))
        confluent = await asyncio.to_thread(scraped, directory, "?names=confluent")
        problems.extend(missing(confluent, "confluent-"))
        return not problems

    try:
        asyncio.run(eventually(has_all))
    except TimeoutError:
        pytest.fail("\n".join(problems))
    for board, metrics in board_metrics().items():
        for each in metrics if board.startswith("strimzi-") else ():
            for labels in series.get(each.name, ()):
                assert all(label in labels for label in CHOSEN_BY), each.name
