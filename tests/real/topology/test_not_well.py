"""The output of the command for a deployment with a part that does not work."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from tests.support.heliograph_command import HeliographCommand, pids
from tests.support.quiet_ports import quiet_ports

pytestmark = pytest.mark.real

WAIT_S = 60.0
TOPOLOGY = """\
name: unwell
zookeepers: [{{name: zookeeper, port: {0}}}]
clusters:
  - name: jfk
    brokers: [{{id: 1, port: {1}}}]
    config: {{auto.create.topics.enable: false}}
  - name: nyc
    kind: aggregate
    brokers: [{{id: 1, port: {2}}}]
    config: {{group.initial.rebalance.delay.ms: 0}}
links:
  - {{source: jfk, target: nyc, topics: [flights]}}
"""


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeliographCommand]:
    yield from deployed(tmp_path_factory.mktemp("unwell"))


@pytest.fixture
def own_command(tmp_path: Path) -> Iterator[HeliographCommand]:
    """A deployment of its own, for a test that leaves its link broken."""
    yield from deployed(tmp_path)


def deployed(directory: Path) -> Iterator[HeliographCommand]:
    command = HeliographCommand(directory)
    command.file.write_text(TOPOLOGY.format(*quiet_ports(3)))
    try:
        command.up()
        yield command
    finally:
        if command.state_dir.exists():
            command.run("down", "--purge")


@contextlib.contextmanager
def frozen(command: HeliographCommand, daemon: str) -> Iterator[None]:
    """Stop the process of a daemon: it lives and keeps its connections, but does not respond."""
    pid = pids(command.run("status"))[daemon]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
        until(command, lambda status: bool(status["state"] == "running"))


def until(command: HeliographCommand, is_so: Callable[[Any], bool]) -> Any:
    """Return the first status that satisfies the condition."""
    deadline_s = time.monotonic() + WAIT_S
    while not is_so(status := command.document("status")):
        assert time.monotonic() < deadline_s, status
        time.sleep(0.2)
    return status


def complaints(command: HeliographCommand, *calls: tuple[str, ...]) -> list[str]:
    """What each call complains of; side by side, as each waits for about ten seconds."""
    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(lambda arguments: command.complain(*arguments), calls))


def _audit_problem(url: str) -> object:
    with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
        return json.load(answer)["links"][0]["problem"]


def make_flights(command: HeliographCommand, *, again: bool = False) -> None:
    """Create the topic that the link copies; `again` deletes it first."""

    async def make() -> None:
        bootstrap = command.document("status")["clusters"][0]["bootstrap"]
        async with KafkaClient(bootstrap) as client, asyncio.timeout(WAIT_S):
            if again:
                assert (await client.delete_topics(["flights"]))["flights"] is None
            wanted = NewTopic(name="flights", partitions=2, replication_factor=1)
            while (await client.create_topics([wanted]))["flights"] is not None:
                await asyncio.sleep(0.1)

    asyncio.run(make())


def test_a_paused_link_is_held_with_what_to_do_and_up_agrees(command: HeliographCommand) -> None:
    make_flights(command)
    until(command, lambda status: bool(status["links"][0]["partitions"] == 2))
    command.run("mirror", "pause", "--link", "jfk-nyc")
    try:
        status = command.run("status", code=4)
        assert (status["state"], status["links"][0]["state"]) == ("degraded", "held")
        (problem,) = status["problems"]
        assert problem == {
            "subject": "link jfk-nyc",
            "state": "held",
            "reason": "an operator has paused it",
            "remedy": "`heliograph mirror resume --link jfk-nyc` resumes it",
        }
        brought_up = command.run("up", str(command.file), code=4)
        assert (brought_up["state"], brought_up["problems"]) == ("degraded", [problem])
        assert brought_up["steps"] == []
    finally:
        command.run("mirror", "resume", "--link", "jfk-nyc")
    until(command, lambda status: bool(status["state"] == "running"))
    assert command.up()["problems"] == []


def test_a_broker_that_was_stopped_is_not_running_nor_are_its_links(
    command: HeliographCommand,
) -> None:
    with frozen(command, "broker-nyc-1"):
        status = command.run("status", code=4)
        assert status["state"] == "degraded"
        (broker,) = status["clusters"][1]["brokers"]
        assert broker["state"] == "not_answering"
        assert "does not answer within 3000 ms" in broker["reason"]
        (link,) = status["links"]
        assert link["state"] == "target_down"
        assert link["reason"].startswith("cluster nyc does not answer: ")
        subjects = [each["subject"] for each in status["problems"]]
        assert subjects[:2] == ["broker 1 of nyc", "link jfk-nyc"]
        # A partition may have failed already while its target was silent.
        assert all(each.startswith("link jfk-nyc, ") for each in subjects[2:]), subjects
        said = command.complain("up", str(command.file), "--timeout", "2")
        assert "not everything runs after 2 s" in said
        assert "broker 1 of nyc: not_answering: " in said


def test_commands_name_a_cluster_that_was_stopped_and_do_not_succeed(
    command: HeliographCommand,
) -> None:
    throttle = ("mirror", "throttle", "--link", "jfk-nyc", "--source", "0")
    plan = ("mirror", "sync", "--dry-run")
    with frozen(command, "broker-nyc-1"):
        *others, said = complaints(command, ("gaps",), plan, throttle)
        for other in others:
            assert "cluster nyc" in other
            assert "does not answer" in other
        assert "cluster nyc does not answer within 8 s; it may still be written" in said
        assert "cluster nyc does not answer" in command.complain("sql", "SELECT 1")
        url = command.document("status")["aggregators"][0]["url"] + "/api/v1/audit?link=jfk-nyc"
        until(command, lambda _: _audit_problem(url) is not None)  # it answers from memory
        assert "does not answer" in str(_audit_problem(url))
    with frozen(command, "mirror-nyc"):
        said, other = complaints(command, throttle, plan)
        assert "the worker of link jfk-nyc" in said
        assert "does not answer within 15 s; it may still do it" in said
        assert "the worker of link jfk-nyc" in other


@pytest.mark.parametrize("daemon", ["mirror-nyc", "aggregator-nyc", "zookeeper-zookeeper"])
def test_other_daemons_that_were_stopped_are_not_running_either(
    command: HeliographCommand, daemon: str
) -> None:
    with frozen(command, daemon):
        status = command.run("status", code=4)
        (found,) = [each for each in status["daemons"] if each["key"] == daemon]
        assert (found["state"], status["state"]) == ("not_answering", "degraded")
        assert found["reason"]


def test_where_mirror_workers_answer_is_told(command: HeliographCommand) -> None:
    (mirror,) = command.run("status")["mirrors"]
    assert (mirror["cluster"], mirror["state"]) == ("nyc", "running")
    assert mirror["url"].startswith("http://127.0.0.1:")


def test_a_failed_partition_is_named_with_its_trouble_and_reason(
    own_command: HeliographCommand,
) -> None:
    command = own_command
    make_flights(command)
    until(command, lambda status: bool(status["links"][0]["partitions"] == 2))
    until(command, lambda status: bool(status["state"] == "running"))
    make_flights(command, again=True)
    status = until(
        command,
        lambda status: (
            len(status["links"][0]["standing_still"]) == 2
            and status["links"][0]["standing_still"][0]["state"] == "FAILED"
        ),
    )
    (link,) = status["links"]
    assert (status["state"], link["standing_still_more"]) == ("degraded", 0)
    assert link["reason"].startswith("flights-0 is FAILED (recreated): flights was deleted ")
    first = link["standing_still"][0]
    assert (first["topic"], first["partition"]) == ("flights", 0)
    assert (first["state"], first["trouble"]) == ("FAILED", "recreated")
    assert status["problems"][0]["reason"] == link["reason"]
    assert "mirror retry --link jfk-nyc" in status["problems"][0]["remedy"]
    assert command.run("up", str(command.file), code=4)["problems"]
