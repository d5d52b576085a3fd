"""What the topology file allows of HTTP ports, and how their settings reach the daemons."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import aggregator.process
import local_cluster.server.process
import mirror_maker.worker.process
from aggregator.settings import WorkerPlace
from aggregator.settings import parse_settings as parse_aggregator
from local_cluster.client.auth.security import Secret
from local_cluster.settings import load_settings as load_broker
from mirror_maker.settings import parse_settings as parse_mirror
from topology.dashboards.scrape_access import scrape_access
from topology.deployment.deployment import Deployment, decode_deployment, encode_deployment
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.problems import InvalidTopology
from topology.rendering.processes import secret_files, secret_variables

CLUSTERS = """\
clusters:
  - {name: jfk, brokers: [{id: 1, port: 9092}]JFK}
  - {name: nyc, kind: aggregate, brokers: [{id: 1, port: 9093}]NYC}
links: [{source: jfk, target: nyc, topics: [t]}]
"""
SECURED = "http_security: {token: {file: token}, tls: {keystore_file: http.pem}}\n"


def text_of(http: str = "", jfk: str = "", nyc: str = "") -> str:
    return f"name: t\n{http}" + CLUSTERS.replace("JFK", jfk).replace("NYC", nyc)


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(text)
    return [f"{each.key}: expected {each.expected}" for each in caught.value.problems]


@pytest.mark.parametrize(
    ("jfk", "nyc", "key"),
    [
        (", http: {host: 0.0.0.0}", "", "clusters[0].http.host"),
        ("", ", mirror: {host: '::'}", "clusters[1].mirror.host"),
        ("", ", aggregator: {host: 10.0.0.1}", "clusters[1].aggregator.host"),
    ],
)
def test_an_open_port_is_refused_beyond_the_loopback(jfk: str, nyc: str, key: str) -> None:
    (problem,) = problems(text_of(jfk=jfk, nyc=nyc))
    assert problem.startswith(f"{key}: expected 127.0.0.1, or a `token` and `tls` in")
    assert problem.endswith("`allow_insecure: true` there accepts that")
    (problem,) = problems(text_of("http_security: {token: {env: T}}\n", jfk, nyc))
    assert problem.startswith(f"{key}: expected 127.0.0.1, or `tls` in")
    parse_topology(text_of(SECURED, jfk, nyc))
    parse_topology(text_of("http_security: {allow_insecure: true}\n", jfk, nyc))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("metrics_token: {file: m}", "http_security: expected `metrics_token` needs a `token`"),
        ("token: {}", "http_security: expected a secret is either in `file` or in `env`"),
        (
            "ca_file: ca.pem",
            "http_security: expected `tls`, without which certificates and keys have no use",
        ),
        (
            "tls: {keystore_file: h, truststore_file: ca, client_auth: required}",
            "http_security.tls.client_auth: expected `certificate_file` beside it, which commands"
            " and aggregators need",
        ),
        (
            "tls: {keystore_file: h, truststore_file: ca, client_auth: requested}",
            "http_security: expected a `token` or a `certificate_file` for commands and"
            " aggregators",
        ),
        (
            "tls: {keystore_file: h, principal_mapping_rules: DEFAULT}",
            "http_security.tls.principal_mapping_rules: expected absent; HTTP ports have no"
            " principals",
        ),
    ],
)
def test_keys_that_do_not_go_together(keys: str, expected: str) -> None:
    assert problems(text_of(f"http_security: {{{keys}}}\n")) == [expected]


def deployed(directory: Path, text: str) -> Deployment:
    file = directory / "t.yaml"
    return render(parse_topology(text), StateDir(directory / "state"), topology_file=file)


def settings_text(deployment: Deployment, key: str) -> str:
    (text,) = deployment.daemon(key).files.values()
    return text


def test_every_daemon_gets_the_places_of_the_secrets(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("never-in-settings-0123")
    deployment = deployed(tmp_path, text_of(SECURED))
    token = Secret(file=str(tmp_path / "token"))
    broker_file = tmp_path / "broker.json"
    broker_file.write_text(settings_text(deployment, "broker-jfk-1"))
    broker = load_broker(broker_file)
    mirror = parse_mirror(settings_text(deployment, "mirror-nyc"))
    asking = parse_aggregator(settings_text(deployment, "aggregator-nyc"))
    for each in (broker, mirror, asking):
        assert each.http_security.token == token
        assert each.http_security.tls is not None
        assert each.http_security.tls.keystore_file == str(tmp_path / "http.pem")
    assert asking.workers_security.token == deployment.http.token == token
    assert asking.workers_security.tls.uses_tls
    assert deployment.http_secrets == (token,)
    assert secret_files(deployment) == [str(tmp_path / "token")]
    by_variable = deployed(tmp_path, text_of(SECURED.replace("{file: token}", "{env: TOKEN}")))
    assert secret_variables(by_variable) == ["TOKEN"]
    text = encode_deployment(deployment)
    assert "never-in-settings" not in text
    assert decode_deployment(text) == deployment


def test_a_daemon_does_not_start_on_an_open_port_that_others_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = deployed(tmp_path, text_of())
    for key, main in (
        ("broker-jfk-1", local_cluster.server.process.main),
        ("mirror-nyc", mirror_maker.worker.process.main),
        ("aggregator-nyc", aggregator.process.main),
    ):
        file = tmp_path / f"{key}.json"
        text = settings_text(deployment, key)
        file.write_text(re.sub(r'("http_host": ?)"127.0.0.1"', r'\1"0.0.0.0"', text))
        monkeypatch.setattr(sys, "argv", [key, "--settings", str(file)])
        assert main() == 2
        told = capsys.readouterr().err
        assert "http_host 0.0.0.0" in told and "needs a `token` and `tls`" in told


@pytest.mark.parametrize(
    ("nyc", "places"),
    [
        ("", [("127.0.0.1", None)]),
        (", mirror: {port: 8083}", [("127.0.0.1", 8083)]),
        (", mirror: {port: 8083, workers: 2}", [("127.0.0.1", 8083), ("127.0.0.1", 8084)]),
        (
            ", mirror: {hosts: [10.0.0.2, 10.0.0.3], host: 0.0.0.0, port: 8083}",
            [("10.0.0.2", 8083), ("10.0.0.3", 8083)],
        ),
        (
            ", mirror: {hosts: [10.0.0.2], host: 0.0.0.0}, aggregator: {host: 10.0.0.2}",
            [("10.0.0.2", None), ("127.0.0.1", None)],
        ),
        (", aggregator: {worker_hosts: [far.example]}", [("far.example", None)]),
        (", aggregator: {worker_hosts: []}", []),
    ],
)
def test_the_aggregator_asks_workers_on_the_hosts_of_the_file(
    tmp_path: Path, nyc: str, places: list[tuple[str, int | None]]
) -> None:
    deployment = deployed(tmp_path, text_of(SECURED, nyc=nyc))
    settings = parse_aggregator(settings_text(deployment, "aggregator-nyc"))
    expected = [WorkerPlace(host=host, port=port) for host, port in places]
    assert list(settings.workers_allowed) == expected


def access_of(deployment: Deployment) -> dict[str, Any]:
    return scrape_access(deployment.http, deployment.http_metrics_token)


def test_prometheus_gets_the_file_of_the_smallest_right(tmp_path: Path) -> None:
    assert access_of(deployed(tmp_path, text_of())) == {}
    secured = SECURED.replace("http.pem}", "http.pem}, ca_file: ca.pem")
    tls = {"scheme": "https", "tls_config": {"ca_file": str(tmp_path / "ca.pem")}}
    token = {"authorization": {"credentials_file": str(tmp_path / "token")}}
    assert access_of(deployed(tmp_path, text_of(secured))) == {**token, **tls}
    metrics = secured.replace("tls:", "metrics_token: {file: m}, tls:")
    token = {"authorization": {"credentials_file": str(tmp_path / "m")}}
    assert access_of(deployed(tmp_path, text_of(metrics))) == {**token, **tls}
    by_certificate = text_of(
        "http_security: {tls: {keystore_file: h, truststore_file: ca, client_auth: requested},"
        " ca_file: ca, certificate_file: c.pem}\n"
    )
    assert access_of(deployed(tmp_path, by_certificate))["tls_config"] == {
        "ca_file": str(tmp_path / "ca"),
        "cert_file": str(tmp_path / "c.pem"),
        "key_file": str(tmp_path / "c.pem"),
    }
