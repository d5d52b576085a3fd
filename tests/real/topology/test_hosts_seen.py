"""Commands of one host that speak of the others: what runs, what would change, who is silent."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.real.topology.test_hosts import Host
from tests.support.heliograph_command import pids
from tests.support.quiet_ports import quiet_ports
from tests.support.scraping import scrape

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

TOKEN = "the-token-of-all-hosts-0123456789"
WRONG = "another-token-of-nobody-0123456789"
TOPOLOGY = """\
name: seen
http_security: {{token: {{file: token}}}}
supervisors: {{port: {0}, hosts: [127.0.1.1, 127.0.1.2, 127.0.1.3]}}
zookeepers: [{{name: main, host: 127.0.1.1, port: {1}}}]
clusters:
  - name: ewr
    zookeeper: {{embedded: main}}
    brokers: [{{id: 1, host: 127.0.1.1, port: {2}}}]
  - name: nyc
    zookeeper: {{embedded: main}}
    brokers: [{{id: 1, host: 127.0.1.2, port: {3}}}]
    http: {{host: 127.0.1.2, base_port: {4}}}
    config: {{num.partitions: 1}}
    authorizer: {{super_users: ["User:ANONYMOUS"]}}
  - name: lga
    zookeeper: {{embedded: main}}
    brokers: [{{id: 1, host: 127.0.1.3, port: {3}}}]
  - name: ord
    zookeeper: {{embedded: main}}
    brokers: [{{id: 1, host: 127.0.1.4, port: {3}}}]
"""
SECOND, THIRD, FOURTH = "127.0.1.2", "127.0.1.3", "127.0.1.4"


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    text = TOPOLOGY.format(*quiet_ports(5))
    found = []
    for name in ("127.0.1.1", SECOND):
        directory = tmp_path / f"etc-{name}"
        directory.mkdir()
        (directory / "topology.yaml").write_text(text)
        (directory / "token").write_text(TOKEN)
        found.append(Host(tmp_path / name, directory / "topology.yaml", name))
    yield found
    for host in found:
        (host.command.file.parent / "token").write_text(TOKEN)
        if host.command.state_dir.exists():
            host.command.run("down", "--purge")


def of_hosts(document: Any) -> dict[str, Any]:
    return {each["host"]: each for each in document["hosts"]}


def states(document: Any) -> dict[str, str]:
    return {each["host"]: each["state"] for each in document["hosts"]}


def plan(host: Host) -> Any:
    return host.command.run("plan", str(host.command.file), "--host", host.name)


def processes_of(host: Host) -> list[psutil.Process]:
    """The supervisor of a host, and the keeper that would start another."""
    supervisor = psutil.Process(host.status()["supervisor"]["pid"])
    keeper = supervisor.parent()
    assert keeper is not None
    return [keeper, supervisor]


def test_every_host_is_seen_and_the_silent_ones_are_named(hosts: list[Host]) -> None:
    first, second = hosts
    first.up()
    running = pids(second.up())

    status = first.command.run("status")
    assert (status["state"], status["problems"]) == ("running", [])
    assert states(status) == {
        SECOND: "answers",
        THIRD: "not_started",
        FOURTH: "not_configured",
    }
    seen = of_hosts(status)
    assert pids(seen[SECOND]) == running == {"broker-nyc-1": running["broker-nyc-1"]}
    assert [each["state"] for each in seen[SECOND]["daemons"]] == ["running"]
    assert seen[SECOND]["clock_ahead_ms"] == 0, "it is the same clock"
    assert seen[THIRD]["clock_ahead_ms"] is None
    assert (seen[SECOND]["file"], seen[SECOND]["generation"]) == ("same", 1)
    assert THIRD in seen[THIRD]["reason"]
    assert first.command.run("status", "--exit-code", code=6) == status
    steps = {host: each["steps"] for host, each in of_hosts(plan(first)).items()}
    assert steps == {SECOND: [], THIRD: None, FOURTH: None}

    processes_of_other_hosts_are_scraped(first)
    what_another_host_refuses_is_told(first, second)
    an_edit_here_is_a_step_there(first, second)
    a_wrong_token_is_named(first)
    a_supervisor_that_hangs_or_is_lost_is_named(first, second)
    assert pids(second.status()) == running, "nothing of this touches a process"
    for directory in (first.command.state_dir, second.command.state_dir):
        files = [path for path in directory.rglob("*") if path.is_file()]
        written = [path for path in files if path.relative_to(directory).parts[0] != "data"]
        assert len(written) > 5
        assert not [path for path in written if TOKEN.encode() in path.read_bytes()]
    assert TOKEN not in json.dumps(status)


def processes_of_other_hosts_are_scraped(first: Host) -> None:
    directory = first.command.file.parent / "monitoring"
    first.command.run("dashboards", "--directory", str(directory))
    targets = json.loads((directory / "heliograph-targets.json").read_text())
    at = {each["labels"]["role"]: each["targets"][0] for each in targets if SECOND in str(each)}
    assert at.keys() == {"broker", "supervisor"}
    broker = scrape(f"http://{at['broker']}", token=TOKEN)
    assert broker.one("kafka_server_kafkaserver_brokerstate") == 3
    supervisor = scrape(f"http://{at['supervisor']}", token=TOKEN)
    of = {"daemon": "broker-nyc-1", "role": "broker"}
    assert supervisor.one("heliograph_supervisor_daemon_running", **of) == 1


def what_another_host_refuses_is_told(first: Host, second: Host) -> None:
    text = first.command.file.read_text()
    seen = of_hosts(plan(first))
    assert (seen[SECOND]["refusals"], seen[SECOND]["unchecked"]) == ([], None)
    assert seen[THIRD]["refusals"] is None
    with socket.create_server((SECOND, 0)) as taken:
        port = taken.getsockname()[1]
        host = f"host: {SECOND}, port: "
        before, after = text.split(host)
        first.command.file.write_text(f"{before}{host}{port}{after[after.index('}') :]}")
        (refusal,) = of_hosts(plan(first))[SECOND]["refusals"]
    assert refusal == {
        "reason": "some ports cannot be used; nothing was started",
        "details": [f"broker 1 of nyc: {SECOND}:{port} is in use by another process"],
    }
    outside = (
        "  - name: outside\n"
        "    external: kafka:9093\n"
        "    security: {protocol: SASL_PLAINTEXT, mechanism: PLAIN, username: u,"
        " password: {file: secret}}\n"
        "links: [{source: outside, target: nyc, topics: [flights]}]\n"
    )
    first.command.file.write_text(text + outside)
    there = of_hosts(plan(first))[SECOND]
    assert [each["key"] for each in there["steps"]] == ["mirror-nyc"]
    secret = second.command.file.parent / "secret"
    assert f"{secret} is missing: mirror into nyc reads it" in there["warnings"]
    first.command.file.write_text(text)


def an_edit_here_is_a_step_there(first: Host, second: Host) -> None:
    text = first.command.file.read_text()
    first.command.file.write_text(text.replace("num.partitions: 1", "num.partitions: 2"))
    (step,) = of_hosts(plan(first))[SECOND]["steps"]
    assert (step["action"], step["key"]) == ("restart", "broker-nyc-1")
    assert any("num.partitions: 1 -> 2" in reason for reason in step["reasons"])
    right = 'acls: [{principal: "User:alice", operations: [READ], topics: [t]}]'
    first.command.file.write_text(text.replace("config: {num", f"{right}\n    config: {{num"))
    (rights,) = plan(first)["rights_elsewhere"]
    assert (rights["cluster"], rights["unknown"]) == ("nyc", None)
    assert len(rights["changes"]) == 1 and "User:alice" in json.dumps(rights["changes"])
    first.command.file.write_text(text.replace("num.partitions: 1", "num.partitions: 2"))
    first.up()
    seen = of_hosts(first.command.run("status"))[SECOND]
    assert (seen["state"], seen["file"], seen["generation"]) == ("answers", "behind", 1)
    assert of_hosts(second.command.run("status"))[first.name]["file"] == "same"


def a_wrong_token_is_named(first: Host) -> None:
    token = first.command.file.parent / "token"
    token.write_text(WRONG)
    seen = of_hosts(first.command.run("status"))
    assert seen[SECOND]["state"] == "wrong_token"
    assert of_hosts(plan(first))[SECOND]["steps"] is None
    refusal = first.command.complain("down", "--other-host", SECOND, "--yes")
    assert "wrong_token" in refusal
    assert WRONG not in refusal and TOKEN not in refusal
    token.write_text(TOKEN)


def a_supervisor_that_hangs_or_is_lost_is_named(first: Host, second: Host) -> None:
    keeper, supervisor = processes_of(second)
    supervisor.suspend()
    hangs = of_hosts(first.command.run("status"))[SECOND]
    assert (hangs["state"], hangs["daemons"]) == ("unreachable", [])
    assert "does not answer within" in hangs["reason"]
    for process in (keeper, supervisor):
        process.send_signal(signal.SIGKILL)
        process.wait()
    lost = of_hosts(first.command.run("status"))[SECOND]
    assert (lost["state"], lost["reason"].split(" ")[:3]) == (
        "not_started",
        ["nothing", "listens", "on"],
    )
    assert second.status()["state"] == "unsupervised"
    second.up()
    assert states(first.command.run("status"))[SECOND] == "answers"


def test_another_host_stops_by_name_and_consent_alone(hosts: list[Host]) -> None:
    first, second = hosts
    here, there = pids(first.up()), pids(second.up())

    unasked = first.command.complain("down", "--other-host", SECOND, code=2)
    assert "stop broker 1 of nyc" in unasked
    assert "confirm it with --yes" in unasked
    assert pids(second.status()) == there

    stopped = first.command.run("down", "--other-host", SECOND, "--yes")
    assert stopped == {"host": SECOND, "stopped": ["broker 1 of nyc"]}
    assert not any(psutil.pid_exists(pid) for pid in there.values())
    assert second.command.document("status")["state"] == "stopped"
    status = first.command.run("status")
    assert pids(status) == here
    assert states(status)[SECOND] == "not_started"
    log = second.command.state_dir / "logs" / "supervisor.log"
    assert "orders over HTTP to stop every daemon" in log.read_text()

    assert second.up()["state"] == "running", "it starts again where it was stopped"
    first.command.run("down")
    assert all(psutil.pid_exists(pid) for pid in pids(second.status()).values())


def test_all_hosts_stop_by_one_command_and_the_silent_ones_are_named(hosts: list[Host]) -> None:
    first, second = hosts
    running = [*pids(first.up()).values(), *pids(second.up()).values()]

    unasked = first.command.complain("down", "--all-hosts", code=2)
    for line in ("stop broker 1 of ewr", f"stop broker 1 of nyc on {SECOND}", f"{FOURTH} does not"):
        assert line in unasked
    assert all(map(psutil.pid_exists, running))

    stopped = first.command.run("down", "--all-hosts", "--yes", code=6)
    told = {each["host"]: each for each in stopped["hosts"]}
    assert told[SECOND] == {"host": SECOND, "stopped": ["broker 1 of nyc"], "reason": None}
    assert told[THIRD] == {"host": THIRD, "stopped": [], "reason": None}
    assert told[FOURTH]["reason"].startswith("not_configured: ")
    assert {*told[first.name]["stopped"]} == {"ZooKeeper main", "broker 1 of ewr"}
    assert not any(map(psutil.pid_exists, running))
    log = second.command.state_dir / "logs" / "supervisor.log"
    assert "SIGKILL" not in log.read_text() and "killing pid" not in log.read_text()
