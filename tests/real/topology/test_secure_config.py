"""configs/secure.yaml with the secrets that `heliograph certificates` generates, on other ports."""

from __future__ import annotations

import io
import json
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from ruamel.yaml import YAML

from aggregator.web.openapi.document import openapi_document
from tests.support.quiet_ports import quiet_ports
from topology.certificates.generate import generate_for
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import load_topology, shipped_topology
from topology.mirror.worker_http import post
from topology.operate.down import down
from topology.operate.preflight import plan_rights
from topology.operate.up import up
from topology.status.observe import current_status
from topology.supervisor.control_client import supervisor_status

pytestmark = pytest.mark.real

OPEN: Final = ("GET /livez", "GET /healthz", "GET /readyz")
GUARDED: Final = {
    "broker": ("GET /metrics", "GET /readyz?verbose=1"),
    "mirror": (
        *("GET /metrics", "GET /status", "GET /repair", "POST /repair", "POST /retry"),
        *("POST /pause", "POST /resume", "POST /throttle"),
        *("GET /loggers", "GET /loggers/root", "PUT /loggers/root"),
    ),
    "aggregator": (
        *("GET /", "GET /metrics", "GET /readyz?verbose=1", "POST /api/v1/translate"),
        "PUT /api/v1/loggers/root",
        *(
            f"GET {path.replace('{logger}', 'root')}"
            for path in openapi_document("1")["paths"]
            if path.startswith("/api/")
        ),
    ),
}

WAIT_S: Final = 60.0
DENIED: Final = "Denied: principal"
GROUP: Final = {
    "group.id": "boards",
    "auto.offset.reset": "earliest",
    "topic.metadata.refresh.interval.ms": 500,
}


class Secure:
    """The deployment of the file, whole or with one datacenter and one broker of the aggregate."""

    def __init__(self, directory: Path, *, is_whole: bool) -> None:
        self.file = directory / "secure.yaml"
        self.state = StateDir(directory / "state")
        text = shipped_topology("secure").read_text()
        known = sorted(set(re.findall(r"\b192\d\d\b", text)))
        for port, free in zip(known, quiet_ports(len(known)), strict=True):
            text = re.sub(rf"\b{port}\b", str(free), text)
        self.file.write_text(text if is_whole else smaller(text))
        topology = load_topology(self.file)
        generate_for(topology, directory)
        self.deployment = render(topology, self.state, topology_file=self.file)
        self.secrets = directory / "secure"
        self.clients = self.secrets / "clients"

    def config(self, cluster: str, user: str, **changed: Any) -> dict[str, Any]:
        """Return the generated configs of librdkafka for a user."""
        lines = (self.clients / cluster / f"{user}.librdkafka").read_text().splitlines()
        return {**dict(line.split("=", 1) for line in lines), "log_level": 0, **changed}

    def denials(self) -> list[str]:
        logs = [path.read_text() for path in self.state.logs_dir.glob("broker-*.log")]
        assert len(logs) == sum(len(each.brokers) for each in self.deployment.clusters)
        return [line for log in logs for line in log.splitlines() if DENIED in line]


def smaller(text: str) -> str:
    """Return a file with jfk and one broker of nyc."""
    document = YAML(typ="safe").load(text)
    jfk, nyc = (each for each in document["clusters"] if each["name"] in ("jfk", "nyc"))
    nyc = {**nyc, "brokers": nyc["brokers"][:1], "topic_defaults": jfk["topic_defaults"]}
    links = [each for each in document["links"] if each["source"] == "jfk"]
    document |= {"clusters": [jfk, nyc], "links": links}
    safe = YAML(typ="safe")
    safe.default_flow_style = True
    out = io.StringIO()
    safe.dump(document, out)
    return out.getvalue()


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.long)], ids=["small", "whole"])
def secure(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Secure]:
    found = Secure(tmp_path, is_whole=request.param)
    try:
        up(found.deployment, found.state)
        yield found
    finally:
        down(found.state, purge=True)


def ask(secure: Secure, url: str, what: str, token: str | None = None) -> int:
    """Return the status of a request over TLS, by Python's own client."""
    method, _, path = what.partition(" ")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    context = ssl.create_default_context(cafile=str(secure.secrets / "ca.pem"))
    request = urllib.request.Request(f"{url}{path}", method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S, context=context) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def urls_of(status: dict[str, Any]) -> list[tuple[str, str]]:
    """Return role and URL of every process with an HTTP port."""
    brokers = [each["url"] for cluster in status["clusters"] for each in cluster["brokers"]]
    return [
        *(("broker", url) for url in brokers),
        *(("mirror", each["url"]) for each in status["mirrors"]),
        *(("aggregator", each["url"]) for each in status["aggregators"]),
    ]


def check_http_ports(secure: Secure) -> None:
    """Each address of each process without a token, with a wrong one, and with the right one."""
    token = (secure.secrets / "http-token").read_text().strip()
    for_metrics = (secure.secrets / "metrics-token").read_text().strip()
    status = current_status(secure.state)
    urls = urls_of(status)
    assert {role for role, _ in urls} == GUARDED.keys()
    for role, url in urls:
        assert url.startswith("https://")
        for what in OPEN:
            assert ask(secure, url, what) in (200, 404 if role == "mirror" else 200), what
        for what in GUARDED[role]:
            assert ask(secure, url, what) == 401, (role, what)
            assert ask(secure, url, what, token[:-1]) == 401, (role, what)
            # Without their parameters most refuse the request, but not its sender.
            assert ask(secure, url, what, token) not in (401, 403, 500), (role, what)
            expected = 200 if what == "GET /metrics" else 403
            assert ask(secure, url, what, for_metrics) == expected, (role, what)
    assert all(each["lag_records"] is not None for each in status["links"]), "commands ask them"
    assert all(each["state"] == "running" for each in status["daemons"])
    assert status["completeness"][0]["state"] is not None, status["completeness"]


def check_a_token_changes_in_service(secure: Secure) -> None:
    """The steps of docs/operations/http-ports.md; every request in between is answered."""
    token, further = secure.secrets / "http-token", secure.secrets / "http-tokens"
    link = secure.deployment.links[0].name
    old, new = token.read_text().strip(), "a-new-token-0123456789"

    def check_commands() -> None:
        for action in ("pause", "resume"):
            post(secure.deployment, link, action)
        for _, url in urls_of(current_status(secure.state)):
            assert ask(secure, url, "GET /metrics", token.read_text().strip()) == 200

    write(further, f"{old}\n{new}\n")
    check_commands()
    write(token, f"{new}\n")
    check_commands()
    further.unlink()
    check_commands()
    for _, url in urls_of(current_status(secure.state)):
        assert ask(secure, url, "GET /metrics", old) == 401


def write(path: Path, text: str) -> None:
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text)
    partial.replace(path)


def check_no_secret_is_written(secure: Secure) -> None:
    """No secret is in the state directory, in arguments, or in what commands print."""
    files = [*(secure.secrets / "passwords").iterdir(), secure.secrets / "http-token"]
    secrets = [each.read_text().strip() for each in (*files, secure.secrets / "metrics-token")]
    report = supervisor_status(secure.state.socket_path)
    texts = [json.dumps(current_status(secure.state)), json.dumps(report)]
    texts += [Path(f"/proc/{row['pid']}/cmdline").read_text() for row in report["daemons"]]
    directories = [secure.state.settings_dir, secure.state.logs_dir, secure.state.ready_dir]
    found = [each for at in directories for each in at.rglob("*") if each.is_file()]
    texts += [each.read_text(errors="replace") for each in (*found, secure.state.deployment_file)]
    assert len(texts) > 20
    assert not [secret for secret in secrets if any(secret in text for text in texts)]


def create(config: dict[str, Any]) -> None:
    topic = NewTopic("flights", num_partitions=1, replication_factor=1)
    admin = AdminClient(config)
    admin.create_topics([topic], request_timeout=WAIT_S)["flights"].result(WAIT_S)


def produce(config: dict[str, Any], *values: str) -> list[KafkaError | None]:
    """Return the outcome of each record."""
    outcomes: list[KafkaError | None] = []
    producer = Producer(config)
    for value in values:
        producer.produce("flights", value, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(WAIT_S) == 0
    return outcomes


def consume(config: dict[str, Any], topic: str, count: int) -> list[str]:
    """Return the values of `count` records, once the topic exists. Raises KafkaException."""
    consumer = Consumer({**config, **GROUP})
    found: list[str] = []
    try:
        consumer.subscribe([topic])
        deadline_s = time.monotonic() + WAIT_S
        while len(found) < count:
            assert time.monotonic() < deadline_s, found
            for message in consumer.consume(count, timeout=0.5):
                if (error := message.error()) is not None:
                    if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        continue
                    raise KafkaException(error)
                value = message.value()
                assert value is not None
                found.append(value.decode())
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def login_error(config: dict[str, Any]) -> KafkaError:
    """Return why a client cannot log in."""
    errors: list[KafkaError] = []
    with_callback: dict[str, Any] = {**config, "error_cb": errors.append}
    client = AdminClient(with_callback)
    deadline_s = time.monotonic() + WAIT_S
    while not [each for each in errors if each.code() == KafkaError._AUTHENTICATION]:
        assert time.monotonic() < deadline_s, errors
        client.poll(0.2)
    return next(each for each in errors if each.code() == KafkaError._AUTHENTICATION)


def test_it_runs_as_it_is(secure: Secure) -> None:
    sources = [each.name for each in secure.deployment.clusters if each.kind == "local"]
    for name in sources:
        create(secure.config(name, "producer"))
        assert produce(secure.config(name, "producer"), f"{name}-0", f"{name}-1") == [None, None]
    for name in sources:
        values = consume(secure.config("nyc", "boards"), f"{name}.flights", 2)
        assert values == [f"{name}-0", f"{name}-1"], "the mirror copies as a user of its own"
    assert secure.denials() == [], "services and applications have the rights that they use"

    wrong = login_error(secure.config("jfk", "boards", **{"sasl.password": "another"}))
    assert "Authentication failed" in wrong.str()
    (refused,) = produce(secure.config("jfk", "boards", retries=0), "forged")
    assert refused is not None and refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaException) as caught:
        consume(secure.config("nyc", "producer"), "jfk.flights", 1)
    code = caught.value.args[0].code()
    assert code in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert any("User:boards" in line for line in secure.denials())
    check_http_ports(secure)
    check_a_token_changes_in_service(secure)
    check_no_secret_is_written(secure)
    planned = plan_rights(secure.deployment, secure.state)
    assert [each.lines() for each in planned] == [[]] * len(secure.deployment.clusters)
