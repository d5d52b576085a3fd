"""Commands that know a deployment: its clusters by name, its links, what an aggregate merges."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.completion import completed
from tests.support.heliograph_command import HeliographCommand
from tests.support.quiet_ports import quiet_ports

pytestmark = pytest.mark.real

WAIT_S = 60.0
TOPOLOGY = """\
name: commanded
log_format: json
zookeepers: [{{name: zookeeper, port: {0}}}]
clusters:
  - name: jfk
    datacenter: new-york
    brokers: [{{id: 1, port: {1}}}]
  - name: ewr
    datacenter: newark
    brokers: [{{id: 1, port: {2}}}]
  - name: nyc
    kind: aggregate
    brokers: [{{id: 1, port: {3}}}]
links:
  - {{source: jfk, target: nyc, topics: [flights, gates], merge: gates}}
  - {{source: ewr, target: nyc, topics: [flights, gates], merge: gates}}
"""


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeliographCommand]:
    command = HeliographCommand(tmp_path_factory.mktemp("commanded"))
    command.file.write_text(TOPOLOGY.format(*quiet_ports(4)))
    try:
        command.up()
        for cluster in ("jfk", "ewr"):
            command.run("topic", "create", "flights", "gates", "-p", "1", "-c", cluster)
            produce(command, cluster, "flights", f"{cluster}-0", f"{cluster}-1")
            produce(command, cluster, "gates", f"{cluster}-gate")
        until_everything_is_copied(command)
        yield command
    finally:
        if command.state_dir.exists():
            command.run("down", "--purge")


def produce(command: HeliographCommand, cluster: str, topic: str, *values: str) -> None:
    words = ["produce", topic, "-c", cluster, *command.options]
    text = "".join(f"{value}\n" for value in values)
    done = subprocess.run(
        [sys.executable, "-m", "topology", *words],
        input=text,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def consume(command: HeliographCommand, *arguments: str) -> list[dict[str, Any]]:
    done = command._done(("consume", "-c", "nyc", *arguments), 0)
    return [json.loads(line) for line in done.stdout.splitlines()]


def until_everything_is_copied(command: HeliographCommand) -> None:
    """Wait until the global view knows all six records, and the links run."""
    deadline_s = time.monotonic() + WAIT_S
    found: list[dict[str, Any]] = []
    while len(found) < 6 or any(each["datacenter"] is None for each in found):
        assert time.monotonic() < deadline_s, found
        time.sleep(0.3)
        if command.document("audit")["links"]:  # before that, the links have no copies
            done = command._done(("consume", "-c", "nyc", "flights", "gates", "--global"), None)
            found = [json.loads(line) for line in done.stdout.splitlines()]
    until_links_run(command)


def until_links_run(command: HeliographCommand) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while True:
        links = command.run("link", "list")["links"]
        states = [(each["name"], each["state"]) for each in links]
        if states == [("jfk-nyc", "running"), ("ewr-nyc", "running")]:
            return
        assert time.monotonic() < deadline_s, states
        time.sleep(0.3)


def test_top_shows_every_part_with_its_rates(command: HeliographCommand) -> None:
    view = command.run("top", "--interval", "0.5")
    assert view["state"] == "running" and view["problems"] == []
    assert [each["name"] for each in view["clusters"]] == ["jfk", "ewr", "nyc"]
    for cluster in view["clusters"]:
        assert (cluster["brokers"], cluster["controller"], cluster["offline"]) == ("1/1", 1, 0)
        assert cluster["bytes_in_per_s"] is not None
    for broker in view["brokers"]:
        assert broker["memory_bytes"] > 0 and broker["cpu_share"] is not None
    assert {each["state"] for each in view["links"]} == {"running"}
    assert all(each["records_per_s"] is not None for each in view["links"])
    assert "heliograph-mirror-nyc" in {each["name"] for each in view["groups"]}


def test_the_global_view_knows_the_datacenter_of_each_record(command: HeliographCommand) -> None:
    found = consume(command, "flights", "gates", "--global")
    origins = {
        each["value"]: (each["datacenter"], each["topic"], each["source_offset"]) for each in found
    }
    assert origins == {
        "jfk-0": ("new-york", "jfk.flights", 0),
        "jfk-1": ("new-york", "jfk.flights", 1),
        "ewr-0": ("newark", "ewr.flights", 0),
        "ewr-1": ("newark", "ewr.flights", 1),
        "jfk-gate": ("new-york", "gates", 0),
        "ewr-gate": ("newark", "gates", 0),
    }
    one = consume(command, "flights", "--global", "--datacenter", "newark")
    assert [each["value"] for each in one] == ["ewr-0", "ewr-1"]
    said = command.complain("consume", "-c", "nyc", "flits", "--global")
    assert "no merged topic 'flits'; did you mean 'flights'?" in said
    said = command.complain("consume", "-c", "nyc", "flights", "--global", "--datacenter", "nwark")
    assert "did you mean 'newark'?" in said


def test_links(command: HeliographCommand) -> None:
    until_links_run(command)
    link = command.run("link", "describe", "jfk-nyc")
    flow = next(each for each in link["worker"]["flows"] if each["topic"] == "flights")
    assert (flow["target_topic"], flow["source_next"]) == ("jfk.flights", 2)


def test_completeness(command: HeliographCommand) -> None:
    began_ms = time.time_ns() // 1_000_000
    deadline_s = time.monotonic() + WAIT_S
    while True:
        (found,) = command.run("completeness")["aggregates"]
        if (found["strict"]["complete_through_ms"] or 0) > began_ms:
            break
        assert time.monotonic() < deadline_s, found
        time.sleep(0.3)
    assert (found["aggregate"], found["strict"]["state"]) == ("nyc", "complete")
    assert [each["topic"] for each in found["topics"]] == ["flights", "gates"]
    for topic in found["topics"]:
        assert {each["datacenter"] for each in topic["datacenters"]} == {"new-york", "newark"}
    (flights,) = command.run("completeness", "--topic", "flights")["aggregates"][0]["topics"]
    assert flights["datacenters"][0]["partitions"][0]["source_end"] == 2
    (line,) = command.run("status")["completeness"]
    assert line["complete_through_ms"] >= found["strict"]["complete_through_ms"]
    said = command.complain("completeness", "--topic", "flits")
    assert "no aggregator answers for a topic 'flits'" in said


def codes(command: HeliographCommand, *arguments: str, code: int = 4) -> list[str]:
    """The codes of the first answer of `why`."""
    answers = command.run("why", *arguments, "--link", "jfk-nyc", code=code)["answers"]
    return [cause["code"] for cause in answers[0]["causes"]]


def test_why(command: HeliographCommand) -> None:
    assert codes(command, "flights", code=0) == ["copied", "origin_local"]
    assert codes(command, "jfk.flights", code=0)[:2] == ["is_copy", "copied"]
    assert codes(command, "flights:0:1", code=0) == ["copied"]
    assert codes(command, "flights:0:99") == ["not_written_yet"]
    assert codes(command, "flights:7:0") == ["unknown_partition"]
    assert codes(command, "jfk-nyc", code=0) == []
    assert codes(command, "billing", "--kind", "group") == ["sync_off"]
    assert codes(command, "flight") == ["not_included"]
    whole = command.run("why", "flights", code=0)
    assert [each["link"] for each in whole["answers"]] == ["jfk-nyc", "ewr-nyc"]
    command.run("mirror", "pause", "--link", "jfk-nyc", "--topic", "flights")
    try:
        assert codes(command, "flights") == ["paused"]
    finally:
        command.run("mirror", "resume", "--link", "jfk-nyc", "--topic", "flights")
    assert "is not TOPIC:PARTITION:OFFSET" in command.complain(
        "why", "flights", "--kind", "record", code=2
    )
    said = command.complain("why", "flights", "--link", "jfk-nyd", code=2)
    assert "did you mean 'jfk-nyc'?" in said


def test_status_shows_what_an_operator_holds_back(command: HeliographCommand) -> None:
    """With a code of its own for those who ask for it, and as before for others."""
    deadline_s = time.monotonic() + WAIT_S
    while True:
        links = command.run("status", "--exit-code")["links"]
        shown = [(each["gaps"], each["paused"], each["throttle"]) for each in links]
        if shown == [(0, [], {}), (0, [], {})]:  # gaps are unknown until a worker has everything
            break
        assert time.monotonic() < deadline_s, shown
        time.sleep(0.3)
    command.run("mirror", "pause", "--link", "jfk-nyc", "--topic", "gates")
    command.run("mirror", "throttle", "--link", "ewr-nyc", "--source", "1000000")
    try:
        held = command.run("status", "--exit-code", code=8)
        assert held["state"] == command.run("status")["state"] == "running"
        jfk, ewr = held["links"]
        assert jfk["paused"] == [{"topic": "gates", "partition": None}]
        assert ewr["throttle"] == {"source": 1_000_000}
    finally:
        command.run("mirror", "resume", "--link", "jfk-nyc", "--topic", "gates")
        command.run("mirror", "throttle", "--link", "ewr-nyc", "--source", "0")


def test_why_says_how_many_seconds_a_group_is_behind(command: HeliographCommand) -> None:
    """By the function of `group describe`, at the source of the link."""
    command._done(("consume", "flights", "-c", "jfk", "--group", "slow", "-n", "1"), 0)
    before = command.run("group", "describe", "slow", "-c", "jfk")["groups"][0]
    assert (before["lag"], before["state"]) == (1, "Empty")
    document = command.run("why", "slow", "--link", "jfk-nyc", code=4)
    assert document["kind"] == "group"
    causes = document["answers"][0]["causes"]
    assert [each["code"] for each in causes] == ["sync_off", "group_behind"]
    after = command.run("group", "describe", "slow", "-c", "jfk")["groups"][0]
    seconds = causes[1]["lag_seconds"]
    assert before["lag_seconds"] < seconds < after["lag_seconds"]
    assert causes[1]["sentence"] == f"slow is 1 records, {seconds:.0f} s behind on jfk"
    assert causes[0]["lag_seconds"] is None


def test_levels_change_in_all_processes_of_an_aggregate(command: HeliographCommand) -> None:
    processes = ["mirror-nyc", "aggregator-nyc"]
    changed = command.run("log-level", "nyc", "local_cluster.client=DEBUG")["processes"]
    assert [each["process"] for each in changed] == processes
    try:
        for each in changed:
            assert (each["loggers"][0]["before"], each["loggers"][0]["level"]) == ("INFO", "DEBUG")
            log = (command.state_dir / "logs" / f"{each['process']}.log").read_text()
            lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
            told = [line for line in lines if line["logger"] == "local_cluster.log_levels"]
            assert told[-1]["message"].startswith(
                "level of logger local_cluster.client: INFO -> DEBUG, set by 127.0.0.1"
            )
        shown = command.run("log-level", "jfk-nyc")["processes"]
        assert [each["process"] for each in shown] == ["mirror-nyc"]
        levels = {each["logger"]: each["level"] for each in shown[0]["loggers"]}
        assert levels["local_cluster.client"] == "DEBUG"
    finally:
        command.run("log-level", "nyc", "--reset", "local_cluster.client")
    said = command.complain("log-level", "broker-nyc-1", code=2)
    assert "`heliograph config set broker-logger 1 LOGGER=LEVEL -c nyc`" in said
    said = command.complain("log-level", "aggregator-nyc", "aggregator.map=DEBUG")
    assert "did you mean 'aggregator.maps'?" in said


def test_plan_says_what_up_refuses(command: HeliographCommand) -> None:
    text = command.file.read_text()
    try:
        command.file.write_text(text.replace("name: commanded", "name: other"))
        planned = command.run("plan", str(command.file), "--exit-code", code=1)
        assert command.run("plan", str(command.file)) == planned
        said = command.complain("up", str(command.file))
        (refusal,) = planned["refusals"]
        assert said.splitlines() == [f"heliograph: {refusal['reason']}", *refusal["details"]]
    finally:
        command.file.write_text(text)
    assert command.run("plan", str(command.file), "--exit-code")["refusals"] == []


def test_the_shell_completes_topics_and_groups(command: HeliographCommand) -> None:
    command._done(("consume", "flights", "-c", "jfk", "--group", "slow", "-n", "1"), 0)
    on_jfk = ("-c", "jfk", "--state-dir", str(command.state_dir))
    assert completed("topic", "describe", *on_jfk, "f") == ["flights"]
    assert {"flights", "gates"} <= {*completed("produce", *on_jfk, "")}
    assert "__consumer_offsets" not in completed("topic", "delete", *on_jfk, "")
    assert "__consumer_offsets" in completed("topic", "describe", *on_jfk, "_")
    assert completed("group", "reset", *on_jfk, "sl") == ["slow"]


def test_plan_warns_of_a_low_limit_of_open_files(command: HeliographCommand) -> None:
    words = [sys.executable, "-m", "topology", "plan", str(command.file), *command.options]
    done = subprocess.run(
        ["bash", "-c", 'ulimit -n 5000; exec "$@"', "bash", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    (warning,) = json.loads(done.stdout)["warnings"]
    assert warning.startswith("a process on this host may open 5000 files: raise the hard limit")


def test_doctor_and_support_bundle(command: HeliographCommand, tmp_path: Path) -> None:
    deadline_s = time.monotonic() + WAIT_S
    done = command._done(("doctor", "-o", "json"), None)
    while done.returncode and time.monotonic() < deadline_s:  # links have not seen their topics
        time.sleep(0.5)
        done = command._done(("doctor", "-o", "json"), None)
    found = command.run("doctor")
    assert found["is_well"]
    assert (found["checked"]["clusters"], found["checked"]["links"]) == (3, 2)
    assert not {each["code"] for each in found["findings"]} - {"open_files", "restarted"}

    text = command.file.read_text()
    try:
        command.file.write_text(text.replace("topics: [flights, gates]", "topics: [flights]"))
        edited = command.run("doctor")["findings"]
        assert any("reload mirror into nyc" in each["sentence"] for each in edited), edited
        command.file.write_text(text.replace("links:", "lynks:"))
        broken = command.run("doctor", code=4)["findings"]
        assert broken[0]["code"] == "file_invalid"
    finally:
        command.file.write_text(text)

    out = tmp_path / "bundle.tar.gz"
    bundle = command.run("support-bundle", "--out", str(out))
    assert {"status.json", "doctor.json", "deployment.json", "topology.yaml"} <= {*bundle["files"]}
    assert "logs/broker-jfk-1.log" in bundle["files"]
    assert "exists; name another file" in command.complain(
        "support-bundle", "--out", str(out), code=2
    )


def test_every_process_logs_json_if_the_file_says_so(command: HeliographCommand) -> None:
    for key in ("broker-jfk-1", "broker-nyc-1", "mirror-nyc", "aggregator-nyc"):
        lines = (command.state_dir / "logs" / f"{key}.log").read_text().splitlines()
        entries = [json.loads(line) for line in lines if line.startswith("{")]
        assert {"timestamp", "level", "logger", "message", "pid"} <= set(entries[-1]), key
        others = [line for line in lines if not line.startswith("{")]
        assert not [line for line in others if " INFO " in line or " WARNING " in line], key
