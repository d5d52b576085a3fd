"""Whether another host's file is the newest one, and what `up` would do there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from topology.deployment.deployment import Deployment
from topology.deployment.parts_of_hosts import part_here
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.hosts.answers import Answer
from topology.hosts.document import plan_of_hosts, status_of_hosts
from topology.hosts.plan import PlansOfHosts
from topology.hosts.refusals import NOT_ASKED
from topology.hosts.show import file_lines_of_hosts, host_rows, plan_lines
from topology.hosts.standing import Standing, standing_of
from topology.shared_file.canonical import canonical_text, digest_of
from topology.shared_file.generations import Generation

FILE = """\
name: flights
http_security: {token: {file: secrets/token}}
supervisors: {port: 7000}
zookeepers: [{name: z, host: 127.0.1.1}]
clusters:
  - name: jfk
    brokers: [{id: 1, host: 127.0.1.1, port: 9092}, {id: 2, host: 127.0.1.2, port: 9092}]
"""
SECOND = "127.0.1.2"


def generation(number: int, text: str, *former: str) -> Generation:
    return Generation(
        number=number,
        text=text,
        host="h",
        written_at="t",
        former=tuple(digest_of(each) for each in former),
    )


def test_how_the_file_of_a_host_stands() -> None:
    newest = generation(3, "c", "b", "a")
    assert standing_of("c", newest, "x") == Standing("same", 3)
    assert standing_of("b", newest, "x") == Standing("behind", 2)
    assert standing_of("a", newest, "x") == Standing("behind", 1)
    assert standing_of("d", newest, "d") == Standing("differs")
    assert standing_of("", newest, "") == Standing("unknown")
    assert standing_of("d", None, "d") == Standing("same"), "no ZooKeeper answers"
    assert standing_of("d", None, "e") == Standing("differs")


def deployed(text: str, state: StateDir) -> Deployment:
    from dataclasses import replace

    topology = parse_topology(text)
    whole = render(topology, state, topology_file=Path("/here/topology.yaml"))
    mine = part_here(whole, None, lambda host: host == "127.0.1.1")
    return replace(mine, file_text=canonical_text(topology))


def report(text: str, **running: str | None) -> Answer:
    """The answer of the second host, with its broker 2 if it runs."""
    rows: list[dict[str, Any]] = [
        {
            "key": key.replace("_", "-"),
            "role": "broker",
            "label": f"broker {key[-1]} of jfk",
            "host": SECOND,
            "version": version,
            "phase": "running",
            "pid": 7,
            "restarts": 0,
            "exit_code": None,
            "log": "/l",
        }
        for key, version in running.items()
    ]
    named = {"deployment": "flights", "hosts": [SECOND], "version": "1.0", "installed": "1.0"}
    text = canonical_text(parse_topology(text)) if text.startswith("name") else text
    return Answer(state="answers", report={**named, "file": text, "pid": 1, "daemons": rows})


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def steps(file: str, answer: Answer, state: StateDir) -> list[str] | None:
    found = PlansOfHosts(deployed(file, state), state).steps(SECOND, answer)
    return None if found is None else [step.sentence() for step in found]


def test_the_steps_on_another_host(state: StateDir) -> None:
    same = report(FILE, broker_jfk_2="1.0")
    assert steps(FILE, same, state) == []
    assert steps(FILE, report(FILE), state) == ["start broker 2 of jfk"]
    edited = FILE.replace("    brokers", "    config: {log.retention.hours: 5}\n    brokers")
    (step,) = steps(edited, same, state) or []
    assert step.startswith("restart broker 2 of jfk (")
    assert "log.retention.hours" in step
    gone = FILE.replace(", {id: 2, host: 127.0.1.2, port: 9092}", "")
    assert steps(gone, same, state) == ["stop broker 2 of jfk (no longer in the topology)"]
    left = report(FILE, broker_jfk_2="1.0", broker_jfk_3="1.0")
    assert steps(FILE, left, state) == ["stop broker 3 of jfk (no longer in the topology)"]


def test_the_version_that_is_installed_there_counts(state: StateDir) -> None:
    answer = report(FILE, broker_jfk_2="0.9")
    assert steps(FILE, answer, state) == ["restart broker 2 of jfk (version: 0.9 -> 1.0)"]


@pytest.mark.parametrize("text", ["", "of a newer version: 1\n", "name: flights\nnewer: 1\n"])
def test_a_file_that_cannot_be_read_has_no_plan(text: str, state: StateDir) -> None:
    answer = report("", broker_jfk_2="1.0")
    assert answer.report is not None
    unread = Answer(state="answers", report={**answer.report, "file": text})
    assert steps(FILE, unread, state) is None


def test_what_people_read(state: StateDir) -> None:
    here = deployed(FILE, state)
    older = FILE.replace("port: 7000", "port: 7001")
    answers = {
        SECOND: report(older, broker_jfk_2="1.0"),
        "127.0.1.3": Answer(state="not_started", reason="nothing listens there"),
        "127.0.1.4": report(FILE),
    }
    refusal = {"reason": "some ports cannot be used", "details": ["broker: 1 is in use"]}
    checks = {
        SECOND: {"refusals": [refusal], "warnings": ["/s is missing"], "unchecked": None},
        "127.0.1.4": {**NOT_ASKED, "unchecked": "4 checks wait already"},
    }
    planned = plan_of_hosts(here, state, answers, None, checks)
    assert [each["refusals"] for each in planned] == [[refusal], None, None]
    assert [each["steps"] for each in planned] == [[], None, []]
    assert list(plan_lines(planned)) == [
        f"{SECOND}: nothing to do",
        f"{SECOND}: `up` refuses this: some ports cannot be used",
        f"{SECOND}:     broker: 1 is in use",
        f"{SECOND}: note: /s is missing",
        "127.0.1.3: unknown (not_started: nothing listens there)",
        "127.0.1.4: nothing to do",
        "127.0.1.4: what `up` would refuse there is unknown: 4 checks wait already",
        f"{SECOND} runs another file, which is no known generation",
    ]
    shown = status_of_hosts(here, answers, None)
    assert list(host_rows(shown)) == [
        (SECOND, "broker 2 of jfk", "running", "7", ""),
        ("127.0.1.3", "-", "not_started", "-", "nothing listens there"),
        ("127.0.1.4", "-", "stopped", "-", "nothing of it runs there"),
    ]
    assert [each["file"] for each in shown] == ["differs", None, "same"]
    behind = {**shown[0], "file": "behind", "generation": 4}
    assert list(file_lines_of_hosts([behind])) == [
        f"{SECOND} is behind: it runs generation 4 of the file"
    ]
    assert shown[0]["url"] == f"http://{SECOND}:7000"
    assert "token" not in str(shown) and "token" not in str(planned)
