"""The chapter "Secure a new deployment" of docs/operations/security.md, as it is written."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import aiokafka
import pytest
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from aiokafka.helpers import create_ssl_context

from tests.support.authority import Authority
from tests.support.heliograph_command import HeliographCommand, pids
from tests.support.quiet_ports import quiet_ports, quiet_range

pytestmark = pytest.mark.real

CHAPTER: Final = Path(__file__).parents[3] / "docs" / "operations" / "security.md"
USERS: Final = ("broker", "admin", "mirror", "aggregator")
WAIT_S: Final = 60.0
CONNECT_S: Final = 20.0


def block(kind: str) -> str:
    return CHAPTER.read_text().partition(f"```{kind}\n")[2].partition("```")[0]


def secret(user: str) -> str:
    return f"planted-secret-of-{user}"


class Secured(HeliographCommand):
    """The deployment of the chapter, on ports of its own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        authority = Authority(directory / "ca")
        (directory / "secrets").mkdir(mode=0o700)
        self.ca_file = directory / "ca.pem"
        self.ca_file.write_bytes(authority.ca_file.read_bytes())
        pem = directory / "secrets" / "broker.pem"
        pem.write_bytes(authority.issue("broker").pem.read_bytes())
        for user in USERS:
            (directory / "secrets" / user).write_text(secret(user) + "\n")
        first = quiet_range(2)[0]
        zookeeper, *others = quiet_ports(3)
        text = block("yaml").replace("port: 2181", f"port: {zookeeper}")
        for old, port in zip((19101, 19103, 19104), (first, *others), strict=True):
            text = text.replace(f"base_port: {old}", f"base_port: {port}")
        self.file.write_text(text)
        self.bootstrap = f"127.0.0.1:{first}"

    def play(self, commands: str) -> None:
        """Run the commands of the chapter: lines of `heliograph`, and loops over datacenters."""
        loop: list[str] = []
        for line in commands.splitlines():
            if line.startswith("for dc in "):
                loop = line.partition(" in ")[2].partition(";")[0].split()
            elif line == "done":
                loop = []
            else:
                for dc in loop or [""]:
                    program, *words = line.replace("$dc", dc).split()
                    assert program == "heliograph"
                    self.run(*words)


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    command = Secured(tmp_path)
    try:
        yield command
    finally:
        if command.state_dir.exists():
            command.run("down", "--purge")


def produce(command: HeliographCommand, cluster: str, *values: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "topology", "produce", "flights", "-c", cluster, *command.options],
        input="".join(f"{value}\n" for value in values),
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def consume(command: HeliographCommand) -> dict[str, str | None]:
    """Return the datacenter of each record of the aggregate, by value."""
    done = command._done(("consume", "-c", "nyc", "flights", "--global"), None)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {each["value"]: each["datacenter"] for each in found}


def wait_for_records(command: HeliographCommand, expected: dict[str, str]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while (found := consume(command)) != expected:
        assert time.monotonic() < deadline_s, found
        time.sleep(0.3)


def wait_until_all_runs(command: HeliographCommand) -> Any:
    deadline_s = time.monotonic() + WAIT_S
    while (status := command.document("status"))["state"] != "running":
        assert time.monotonic() < deadline_s, status["problems"]
        time.sleep(0.3)
    return status


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.3)


def probe_states(command: HeliographCommand) -> set[str]:
    return {each["probe"]["state"] for each in command.document("status")["links"]}


def source_ends(command: HeliographCommand) -> dict[str, int]:
    """Return the end of the topic in each datacenter, as the aggregator knows it."""
    (flights,) = command.run("completeness", "--topic", "flights")["aggregates"][0]["topics"]
    ends = {each["datacenter"]: each["partitions"][0] for each in flights["datacenters"]}
    return {name: end["source_end"] for name, end in ends.items()}


def denied(command: HeliographCommand) -> list[str]:
    """Return what the logs of the brokers have about denials while the authorizer enforces."""
    logs = [path.read_text() for path in (command.state_dir / "logs").glob("broker-*.log")]
    assert len(logs) == 4
    return [line for log in logs for line in log.splitlines() if "Denied: principal" in line]


def leaks(directory: Path) -> list[Path]:
    """Return the files that hold a planted secret."""
    return [
        path
        for path in directory.rglob("*")
        if path.is_file() and b"planted-secret" in path.read_bytes()
    ]


def test_the_chapter(secured: Secured) -> None:
    planned = json.dumps(secured.document("plan", str(secured.file)))
    assert "SASL_SSL" in secured.file.read_text() and "planted-secret" not in planned
    secured.up()
    secured.play(block("sh"))
    produce(secured, "jfk", "jfk-0", "jfk-1")
    produce(secured, "ewr", "ewr-0")
    expected = {"jfk-0": "jfk", "jfk-1": "jfk", "ewr-0": "ewr"}
    wait_for_records(secured, expected)
    before = pids(wait_until_all_runs(secured))

    text = secured.file.read_text()
    assert ", dry_run: true" in text
    secured.file.write_text(text.replace(", dry_run: true", ""))
    secured.up()
    after = pids(wait_until_all_runs(secured))
    restarted = {key for key in after if after[key] != before[key]}
    assert restarted == {"broker-jfk-1", "broker-jfk-2", "broker-ewr-1", "broker-nyc-1"}
    assert denied(secured) == [], "the services have the rights that they use"
    produce(secured, "jfk", "jfk-2")
    wait_for_records(secured, {**expected, "jfk-2": "jfk"})
    wait_until(lambda: probe_states(secured) == {"ok"})
    status = wait_until_all_runs(secured)
    # The mirrors look at the ends of their sources again and again.
    wait_until(lambda: source_ends(secured) == {"jfk": 3, "ewr": 1})
    assert denied(secured) == []
    assert secured.run("rebalance", "jfk", "--dry-run")["moves"] is not None

    asyncio.run(strangers(secured))
    assert "User:aggregator" in denied(secured)[0]

    plain = re.sub(r" tls: .*| ca_file: .*", "", text).replace("SASL_SSL", "SASL_PLAINTEXT")
    secured.file.write_text(plain)
    said = secured.complain("up", str(secured.file))
    assert "jfk: listener SECURE from SASL_SSL to SASL_PLAINTEXT" in said
    assert pids(wait_until_all_runs(secured)) == after
    assert leaks(secured.state_dir) == []
    assert "planted-secret" not in json.dumps(status)


async def strangers(secured: Secured) -> None:
    """Nobody gets in without credentials, and a service does only what is its own."""
    tls = create_ssl_context(cafile=str(secured.ca_file))
    login: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "ssl_context": tls,
        "sasl_mechanism": "SCRAM-SHA-512",
    }
    as_aggregator = {**login, "sasl_plain_username": "aggregator"}
    plain_text: dict[str, Any] = {}
    without_user = {"security_protocol": "SSL", "ssl_context": tls}
    wrong_password = {**as_aggregator, "sasl_plain_password": secret("mirror")}
    for options in (plain_text, without_user, wrong_password):
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=secured.bootstrap, **options)
        try:
            with pytest.raises(KafkaConnectionError):
                async with asyncio.timeout(CONNECT_S):
                    await producer.start()
        finally:
            await producer.stop()
    known = {**as_aggregator, "sasl_plain_password": secret("aggregator")}
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=secured.bootstrap, **known)
    await producer.start()
    try:
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("flights", b"forged")
    finally:
        await producer.stop()
