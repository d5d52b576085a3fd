"""The settings of each daemon, read by the daemons' own parsers."""

from __future__ import annotations

from pathlib import Path

import pytest

import aggregator.settings
import local_cluster.settings
import mirror_maker.settings
from aggregator.settings import parse_settings as parse_aggregator
from topology.deployment.deployment import Daemon, Deployment, decode_deployment, encode_deployment
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import load_topology, parse_topology

CONFIGS = Path(__file__).resolve().parents[4] / "configs"


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


AGGREGATE = "127.0.0.1:19094,127.0.0.1:19095,127.0.0.1:19096"


def deployed(text: str, state: StateDir) -> Deployment:
    return render(parse_topology(text), state, topology_file=Path("t.yaml"))


def settings_file(daemon: Daemon) -> Path:
    assert daemon.argv[-2] == "--settings"
    path = Path(daemon.argv[-1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(daemon.files[str(path)])
    return path


def quickstart(state: StateDir) -> Deployment:
    file = CONFIGS / "quickstart.yaml"
    return render(load_topology(file), state, topology_file=file)


def test_the_quickstart_is_nine_processes(state: StateDir) -> None:
    deployment = quickstart(state)
    aggregate = ("broker-nyc-1", "broker-nyc-2", "broker-nyc-3")
    assert {each.key: each.after for each in deployment.daemons} == {
        "zookeeper-zookeeper": (),
        "broker-ewr-1": ("zookeeper-zookeeper",),
        "broker-jfk-1": ("zookeeper-zookeeper",),
        "broker-lga-1": ("zookeeper-zookeeper",),
        **dict.fromkeys(aggregate, ("zookeeper-zookeeper",)),
        "mirror-nyc": aggregate,
        "aggregator-nyc": aggregate,
    }
    bootstraps = {each.name: each.bootstrap for each in deployment.clusters}
    assert bootstraps["ewr"] == "127.0.0.1:19091"
    assert bootstraps["nyc"] == AGGREGATE
    assert decode_deployment(encode_deployment(deployment)) == deployment


def test_the_quickstart_keeps_to_its_documented_ports(state: StateDir) -> None:
    ports = sorted(port for each in quickstart(state).daemons for _, port in each.ports)
    assert ports == list(range(19090, 19098))


def test_a_broker_reads_its_settings(state: StateDir) -> None:
    daemon = quickstart(state).daemon("broker-jfk-1")
    settings = local_cluster.settings.load_settings(settings_file(daemon))
    assert (settings.cluster, settings.broker_id, settings.rack) == ("jfk", 1, "127.0.0.1")
    assert settings.zookeeper_connect == "127.0.0.1:19090/jfk"
    assert settings.inter_broker_listener == "PLAINTEXT"
    assert settings.config == {"num.partitions": "3", "log.retention.ms": "-1"}
    assert settings.ready_file == daemon.ready_file
    assert Path(settings.log_dirs[0]).is_relative_to(state.data_dir)


def test_a_mirror_worker_reads_its_settings(state: StateDir) -> None:
    daemon = quickstart(state).daemon("mirror-nyc")
    settings = mirror_maker.settings.load_settings(settings_file(daemon))
    assert (settings.target_alias, settings.target_bootstrap) == ("nyc", AGGREGATE)
    assert [(each.name, each.source_alias, each.topics) for each in settings.links] == [
        ("ewr-nyc", "ewr", ("flights",)),
        ("jfk-nyc", "jfk", ("flights",)),
        ("lga-nyc", "lga", ("flights",)),
    ]
    assert settings.ready_file == daemon.ready_file


def test_an_aggregator_reads_its_settings(state: StateDir) -> None:
    daemon = quickstart(state).daemon("aggregator-nyc")
    settings = aggregator.settings.parse_settings(settings_file(daemon).read_bytes())
    assert (settings.aggregate, settings.http_port) == ("nyc", 19097)
    assert [(each.name, each.datacenter) for each in settings.links] == [
        ("ewr-nyc", "ewr"),
        ("jfk-nyc", "jfk"),
        ("lga-nyc", "lga"),
    ]
    assert settings.ready_file == daemon.ready_file


PROBED = """\
name: t
clusters:
  - {{name: ours, brokers: [{{id: 1, port: 9092}}]}}
  - {{name: theirs, external: "k:9092"}}
  - {{name: all, kind: aggregate, brokers: [{{id: 1, port: 9093}}]{aggregator}}}
  - {{name: plain, brokers: [{{id: 1, port: 9094}}]}}
  - {{name: far, external: "f:9092", aggregator: {{}}}}
links:
  - {{source: ours, target: all, topics: [a]{probe}}}
  - {{source: theirs, target: all, topics: [a]{probe}}}
  - {{source: ours, target: far, topics: [a]{probe}}}
  - {{source: ours, target: plain, topics: [a]}}
"""
OURS, THEIRS, FAR = "ours-all", "theirs-all", "ours-far"


@pytest.mark.parametrize(
    ("aggregator", "probe", "expected"),
    [
        ("", "", {OURS}),
        ("", ", probe: false", set()),
        ("", ", probe: true", {OURS, THEIRS, FAR}),
        (", aggregator: {probe: false}", "", set()),
        (", aggregator: {probe: false}", ", probe: true", {OURS, THEIRS, FAR}),
        (", aggregator: {probe: true}", "", {OURS}),
    ],
)
def test_who_is_probed_is_told_alike_to_mirror_aggregator_and_status(
    aggregator: str, probe: str, expected: set[str], state: StateDir
) -> None:
    deployment = deployed(PROBED.format(aggregator=aggregator, probe=probe), state)
    assert {each.name for each in deployment.links if each.is_probed} == expected
    told: dict[str, set[str]] = {"mirror": set(), "aggregator": set()}
    for daemon in deployment.daemons:
        if daemon.role == "mirror":
            mirrors = mirror_maker.settings.load_settings(settings_file(daemon)).links
            told["mirror"] |= {each.name for each in mirrors if each.probe}
        elif daemon.role == "aggregator":
            links = parse_aggregator(settings_file(daemon).read_bytes()).links
            told["aggregator"] |= {each.name for each in links if each.probe}
    assert told == {"mirror": expected, "aggregator": expected}
    assert decode_deployment(encode_deployment(deployment)) == deployment


def test_the_embedded_zookeeper_gets_its_files(state: StateDir) -> None:
    daemon = quickstart(state).daemon("zookeeper-zookeeper")
    assert daemon.ready_zookeeper == ("127.0.0.1", 19090)
    (config,) = (text for path, text in daemon.files.items() if path.endswith(".cfg"))
    assert "clientPort=19090" in config
    assert f"dataDir={state.data_dir}" in config
    assert daemon.argv[-1] in daemon.files


def test_an_ensemble_is_three_nodes_that_know_each_other(state: StateDir) -> None:
    deployment = deployed(
        """\
name: t
zookeepers: [{name: main, port: 21810, nodes: 3}]
clusters:
  - {name: ewr, brokers: [{id: 1, port: 9092}]}
""",
        state,
    )
    *nodes, broker = deployment.daemons
    assert [each.key for each in nodes] == [f"zookeeper-main.{n}" for n in (1, 2, 3)]
    assert broker.after == tuple(each.key for each in nodes)
    settings = local_cluster.settings.load_settings(settings_file(broker))
    hosts = "127.0.0.1:21810,127.0.0.1:21811,127.0.0.1:21812"
    assert settings.zookeeper_connect == f"{hosts}/ewr"
    ports = [[port for _, port in each.ports] for each in nodes]
    assert ports == [[21810, 21813, 21816], [21811, 21814, 21817], [21812, 21815, 21818]]
    for number, node in enumerate(nodes, 1):
        (config,) = (text for path, text in node.files.items() if path.endswith(".cfg"))
        assert f"clientPort={21809 + number}\n" in config
        for other, (_, peer, election) in enumerate(ports, 1):
            assert f"server.{other}=127.0.0.1:{peer}:{election}\n" in config
        assert node.files[str(state.data_dir / node.key / "myid")] == f"{number}\n"
        assert str(state.data_dir / node.key) in node.directories


def test_listeners_racks_and_an_outside_zookeeper(state: StateDir) -> None:
    deployment = deployed(
        """\
name: t
clusters:
  - name: ewr
    zookeeper: zk1:2181,zk2:2181/ewr
    flush: page_cache
    listeners:
      - {name: CLIENT, bind: 0.0.0.0, advertised_host: kafka.example}
      - {name: INTERNAL, inter_broker: true}
    brokers: [{id: 7, host: 10.0.0.1, ports: {CLIENT: 9092, INTERNAL: 9093}}]
    topic_defaults: {partitions: 6, replication_factor: 1, config: {max.message.bytes: 100}}
    config: {auto.create.topics.enable: false}
""",
        state,
    )
    (daemon,) = deployment.daemons
    assert daemon.after == ()
    assert daemon.ports == (("0.0.0.0", 9092), ("10.0.0.1", 9093))
    settings = local_cluster.settings.load_settings(settings_file(daemon))
    assert settings.zookeeper_connect == "zk1:2181,zk2:2181/ewr"
    assert (settings.flush, settings.rack) == ("page_cache", "10.0.0.1")
    assert settings.inter_broker_listener == "INTERNAL"
    addresses = [(each.host, each.advertised_host) for each in settings.listeners]
    assert addresses == [("0.0.0.0", "kafka.example"), ("10.0.0.1", "10.0.0.1")]
    assert settings.config == {
        "num.partitions": "6",
        "default.replication.factor": "1",
        "message.max.bytes": "100",
        "auto.create.topics.enable": "false",
    }
    assert deployment.clusters[0].bootstrap == "kafka.example:9092"


def test_racks_are_dealt_out_and_log_directories_lie_where_they_are_told(state: StateDir) -> None:
    deployment = deployed(
        """\
name: t
clusters:
  - name: ewr
    brokers: {count: 3, base_port: 9092, racks: [a, b], log_dirs: [., /disk-1, disk-2]}
""",
        state,
    )
    found = [
        local_cluster.settings.load_settings(settings_file(deployment.daemon(f"broker-ewr-{each}")))
        for each in (1, 2, 3)
    ]
    assert [each.rack for each in found] == ["a", "b", "a"]
    assert found[1].log_dirs == (
        str(state.data_dir / "ewr" / "broker-2"),
        "/disk-1/ewr/broker-2",
        str(state.data_dir / "disk-2" / "ewr" / "broker-2"),
    )


def test_each_broker_has_a_port_for_health_and_metrics(state: StateDir) -> None:
    deployment = deployed(
        """\
name: t
http_security: {allow_insecure: true}
clusters:
  - name: ewr
    brokers: {count: 2, base_port: 9092}
  - name: jfk
    brokers: {count: 2, base_port: 9192}
    http: {host: 0.0.0.0, base_port: 9404}
""",
        state,
    )
    daemons = [deployment.daemon(f"broker-{each}") for each in ("ewr-2", "jfk-1", "jfk-2")]
    found = [local_cluster.settings.load_settings(settings_file(each)) for each in daemons]
    assert [(each.http_host, each.http_port) for each in found] == [
        ("127.0.0.1", 0),
        ("0.0.0.0", 9404),
        ("0.0.0.0", 9405),
    ]
    assert [each.ports[1:] for each in daemons] == [
        (),
        (("0.0.0.0", 9404),),
        (("0.0.0.0", 9405),),
    ]


def test_nothing_is_started_for_an_external_cluster(state: StateDir) -> None:
    deployment = deployed(
        """\
name: t
clusters:
  - {name: theirs, external: "k1:9092,k2:9092", aggregator: {port: 8080}}
  - {name: ewr, brokers: [{id: 1, port: 9092}]}
links:
  - {source: ewr, target: theirs, topics: [a]}
  - {source: theirs, target: ewr, topics: [b]}
""",
        state,
    )
    keys = [each.key for each in deployment.daemons]
    assert keys == [
        "zookeeper-zookeeper",
        "broker-ewr-1",
        "mirror-theirs",
        "mirror-ewr",
        "aggregator-theirs",
    ]
    settings = mirror_maker.settings.load_settings(settings_file(deployment.daemon("mirror-ewr")))
    assert settings.links[0].source_bootstrap == "k1:9092,k2:9092"
    assert deployment.daemon("mirror-theirs").after == ()
