"""Containers: their names, addresses, settings, secrets, and what cannot be rendered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import aggregator.settings
import local_cluster.settings
import mirror_maker.settings
from tests.support.running_chapter import texts
from topology.file.load import parse_topology
from topology.model import Topology
from topology.problems import DeployError
from topology.rendering.compose import compose_files
from topology.rendering.containers import containers_of, rendered
from topology.rendering.kubernetes import container_sets, kubernetes_files, secret_commands
from topology.rendering.kubernetes_objects import Site
from topology.rendering.placed import placed

TEXT = """\
name: Flights_1
http_security: {allow_insecure: true}
zookeepers:
  - {name: main, port: 2181, nodes: 3}
clusters:
  - name: ewr
    datacenter: newark
    brokers: {count: 3, base_port: 19091, host: 10.0.0.1}
  - name: nyc
    kind: aggregate
    brokers: [{id: 7, host: 10.0.0.2, port: 19091, log_dirs: [., /disk1/kafka]}]
  - name: lga
    external: kafka1:9093
    security:
      protocol: SASL_SSL
      mechanism: PLAIN
      username: m
      password: {env: LGA_PASSWORD}
      ca_file: secrets/ca.pem
links:
  - {source: ewr, target: nyc, topics: [".*"]}
  - {source: lga, target: nyc, topics: [".*"]}
"""
SITE = Site(deployment="Flights_1", namespace="bus", image="heliograph:1", storage="1Gi")


def topology(text: str = TEXT) -> Topology:
    return parse_topology(text, file="topology.yaml")


def documents(text: str) -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load_all(text))


def manifests(text: str = TEXT) -> dict[str, list[dict[str, Any]]]:
    sets = container_sets(topology(text), SITE, lambda each: f"{each or 'any'}.example")
    files = kubernetes_files(SITE, sets)
    return {name: documents(content) for name, content in files.items()}


def test_each_process_finds_the_others_and_binds_every_address(tmp_path: Path) -> None:
    here = placed(topology(), lambda place: place.name)
    containers = {each.name: each for each in containers_of(rendered(here))}
    assert sorted(containers) == [
        "aggregator-nyc-1",
        "broker-ewr-1",
        "broker-ewr-2",
        "broker-ewr-3",
        "broker-nyc-7",
        "mirror-nyc-1",
        "zookeeper-main-1",
        "zookeeper-main-2",
        "zookeeper-main-3",
    ]

    def path(name: str) -> Path:
        file = tmp_path / name
        file.write_text(containers[name].settings[f"{name}.json"])
        return file

    broker = local_cluster.settings.load_settings(path("broker-ewr-2"))
    (listener,) = broker.listeners
    assert (listener.host, listener.port) == ("0.0.0.0", 9092)
    assert (listener.advertised_host, listener.advertised_port) == ("broker-ewr-2", 9092)
    assert broker.zookeeper_connect == (
        "zookeeper-main-1:2181,zookeeper-main-2:2181,zookeeper-main-3:2181/ewr"
    )
    assert (broker.http_host, broker.http_port) == ("0.0.0.0", 8080)
    worker = mirror_maker.settings.load_settings(path("mirror-nyc-1"))
    assert worker.target_bootstrap == "broker-nyc-7:9092"
    assert [each.source_bootstrap for each in worker.links] == [
        "broker-ewr-1:9092,broker-ewr-2:9092,broker-ewr-3:9092",
        "kafka1:9093",
    ]
    answers = aggregator.settings.parse_settings(path("aggregator-nyc-1").read_bytes())
    assert answers.bootstrap == "broker-nyc-7:9092"
    config = containers["zookeeper-main-2"].settings["zookeeper-main-2.cfg"]
    assert "server.3=zookeeper-main-3:2182:2183" in config
    assert "clientPortAddress=zookeeper-main-2" in config


def test_a_container_gets_only_the_secrets_that_it_reads() -> None:
    here = placed(topology(), lambda place: place.name)
    found = {each.name: each for each in containers_of(rendered(here))}
    for name in ("mirror-nyc-1", "aggregator-nyc-1"):
        assert found[name].files == ("/etc/heliograph/secrets/ca.pem",)
        assert found[name].variables == ("LGA_PASSWORD",)
    for name in ("broker-ewr-1", "zookeeper-main-1"):
        assert found[name].files == found[name].variables == ()


def test_compose_publishes_a_listener_for_the_machine_on_free_ports() -> None:
    files = compose_files(topology(), image="heliograph:1", source=Path("/srv/topology.yaml"))
    (document,) = documents(files["compose.yaml"])
    services = document["services"]
    assert {name: each["ports"] for name, each in services.items() if "ports" in each} == {
        "broker-ewr-1": ["127.0.0.1:19091:19091"],
        "broker-ewr-2": ["127.0.0.1:19092:19092"],
        "broker-ewr-3": ["127.0.0.1:19093:19093"],
        "broker-nyc-7": ["127.0.0.1:19094:19094"],
        "aggregator-nyc-1": ["127.0.0.1:8080:8080"],
    }
    settings = json.loads(files["settings/broker-nyc-7.json"])
    inner, outside = settings["listeners"]
    assert (outside["name"], outside["port"]) == ("OUTSIDE", 19094)
    assert (outside["advertised_host"], outside["host"]) == ("127.0.0.1", "0.0.0.0")
    assert settings["inter_broker_listener"] == inner["name"] == "PLAINTEXT"
    assert services["broker-nyc-7"]["volumes"] == [
        "broker-nyc-7:/var/lib/heliograph/data",
        "/disk1/kafka:/disk1/kafka",
    ]
    assert services["mirror-nyc-1"]["environment"] == ["LGA_PASSWORD"]
    assert document["secrets"] == {"secrets-ca.pem": {"file": "/srv/secrets/ca.pem"}}
    for service in services.values():
        for each in service["configs"]:
            assert document["configs"][each["source"]]["file"].removeprefix("./") in files


def test_a_listener_for_the_machine_is_not_trusted_like_a_former_one() -> None:
    """It copies the first listener, which brokers may be moving away from."""
    moving = parse_topology(texts(range(20_000, 20_008))[2])
    cluster = placed(moving, lambda place: place.name, outside="127.0.0.1").clusters[0]
    assert [(each.name, each.former_inter_broker) for each in cluster.listeners] == [
        ("PLAINTEXT", True),
        ("SECURE", False),
        ("OUTSIDE", False),
    ]
    assert cluster.inter_broker_listener.name == "SECURE"


def test_kubernetes_has_a_set_per_cluster_and_a_directory_per_datacenter() -> None:
    found = manifests()
    assert sorted(found) == [
        "newark/broker-ewr.yaml",
        "newark/kustomization.yaml",
        "newark/zookeeper-main.yaml",
        "nyc/aggregator-nyc.yaml",
        "nyc/broker-nyc.yaml",
        "nyc/kustomization.yaml",
        "nyc/mirror-nyc.yaml",
    ]
    kinds = {each["kind"]: each for each in found["newark/broker-ewr.yaml"]}
    spec = kinds["StatefulSet"]["spec"]
    assert (spec["replicas"], spec["ordinals"], spec["serviceName"]) == (
        3,
        {"start": 1},
        "broker-ewr",
    )
    assert kinds["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    data = kinds["ConfigMap"]["data"]
    assert sorted(data) == [f"broker-ewr-{number}.json" for number in (1, 2, 3)]
    settings = json.loads(data["broker-ewr-2.json"])
    host = "broker-ewr-2.broker-ewr.bus.svc.newark.example"
    assert settings["listeners"][0]["advertised_host"] == host
    (container,) = spec["template"]["spec"]["containers"]
    assert container["command"][-4:] == [
        "--settings",
        "/var/lib/heliograph/settings/$(POD_NAME).json",
        "--rack",
        "$(ZONE)",
    ]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz?in_sync=1"
    (claim, disk) = manifests()["nyc/broker-nyc.yaml"][2]["spec"]["volumeClaimTemplates"]
    assert (claim["metadata"]["name"], disk["metadata"]["name"]) == ("data", "data-disk1-kafka")
    resources = found["newark/kustomization.yaml"][0]["resources"]
    assert resources == ["broker-ewr.yaml", "zookeeper-main.yaml"]


def test_explicit_racks_win_over_zones() -> None:
    text = TEXT.replace("host: 10.0.0.1}", "host: 10.0.0.1, racks: [a, b, c]}")
    (container,) = next(
        each["spec"]["template"]["spec"]["containers"]
        for each in manifests(text)["newark/broker-ewr.yaml"]
        if each["kind"] == "StatefulSet"
    )
    assert "--rack" not in container["command"]


def test_secrets_are_named_and_never_rendered() -> None:
    sets = container_sets(topology(), SITE, lambda _: "cluster.local")
    commands = secret_commands(SITE, sets)
    assert commands == [
        "kubectl -n bus create secret generic flights-1-files"
        " --from-file=secrets-ca.pem=secrets/ca.pem",
        "kubectl -n bus create secret generic flights-1-environment"
        ' --from-literal=LGA_PASSWORD="$LGA_PASSWORD"',
    ]
    kinds = {each["kind"] for text in manifests().values() for each in text}
    assert "Secret" not in kinds


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "[{id: 7, host: 10.0.0.2, port: 19091, log_dirs: [., /disk1/kafka]}]",
            "[{id: 7, host: 10.0.0.2, port: 19091}, {id: 9, host: 10.0.0.2, port: 19092}]",
            "must follow one another",
        ),
        (
            "[{id: 7, host: 10.0.0.2, port: 19091, log_dirs: [., /disk1/kafka]}]",
            "[{id: 7, host: 10.0.0.2, port: 19091},"
            " {id: 8, host: 10.0.0.2, port: 19092, log_dirs: [/disk1/kafka]}]",
            "the same `log_dirs`",
        ),
        ("secrets/ca.pem", "/etc/ssl/ca.pem", "relative to the topology file"),
        (
            "{allow_insecure: true}",
            "{token: {env: T}}",
            "`http_security` of Flights_1 needs `tls`;",
        ),
        (
            "name: lga\n    external: kafka1:9093\n",
            "name: EWR\n    brokers: [{id: 1, port: 5}]\n",
            "",
        ),
    ],
)
def test_what_kubernetes_cannot_express_is_refused(old: str, new: str, problem: str) -> None:
    text = TEXT.replace(old, new)
    if not problem:
        text = text[: text.index("    security:")]
        problem = "would both be called broker-ewr-1"
    with pytest.raises(DeployError, match=problem):
        container_sets(topology(text), SITE, lambda _: "cluster.local")


def test_probes_and_checks_use_tls_where_the_ports_have_it() -> None:
    security = "{token: {env: T}, tls: {keystore_file: http.pem}}"
    text = TEXT.replace("{allow_insecure: true}", security)
    schemes = [
        container[probe]["httpGet"]["scheme"]
        for each in (TEXT, text)
        for documents_of in manifests(each).values()
        for document in documents_of
        if document["kind"] == "StatefulSet"
        for container in document["spec"]["template"]["spec"]["containers"]
        for probe in ("livenessProbe", "readinessProbe")
        if "httpGet" in container[probe]
    ]
    half = len(schemes) // 2
    assert schemes == ["HTTP"] * half + ["HTTPS"] * half and half > 0
    (compose,) = (
        content
        for name, content in compose_files(
            topology(text), image="heliograph:1", source=Path("/srv/topology.yaml")
        ).items()
        if name == "compose.yaml"
    )
    assert "https://127.0.0.1:8080/readyz" in compose and "http://127.0.0.1" not in compose


@pytest.mark.parametrize("name", ["quickstart", "secure", "three-brokers", "two-datacenters"])
def test_manifests_follow_the_schemas_of_kubernetes(name: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    file = Path(__file__).parents[4] / "configs" / f"{name}.yaml"
    shipped = parse_topology(file.read_text(), file=str(file))
    checked = 0
    if name != "secure":
        accepted = shipped.http_security.model_copy(update={"allow_insecure": True})
        shipped = shipped.model_copy(update={"http_security": accepted})
    sets = container_sets(shipped, SITE, lambda _: "cluster.local")
    for text in kubernetes_files(SITE, sets).values():
        for document in documents(text):
            if document["kind"] != "Kustomization":
                kubernetes_validate.validate(document, "1.34", strict=True)
                checked += 1
    assert checked > 0
