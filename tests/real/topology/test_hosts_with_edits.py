"""Two hosts, each with its own copy of the topology file, that people edit on both."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from kazoo.client import KazooClient

from local_cluster.client.auth.security import Secret
from local_cluster.client.auth.zookeeper_security import NO_ZOOKEEPER_USER, ZooKeeperSecurity
from tests.real.topology.test_hosts import Host
from tests.support.heliograph_command import HeliographCommand, pids
from tests.support.quiet_ports import quiet_ports
from topology.deployment.zookeeper_access import ZooKeeperAccess
from topology.shared_file.generations import Generation
from topology.shared_file.znodes import (
    PATH,
    Held,
    Overtaken,
    Silent,
    read_generations,
    write_generation,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

EXIT_CONFLICT = 5
TOPOLOGY = """\
name: edited
zookeepers: [{{name: main, host: 127.0.1.1, port: {0}}}]
clusters:
  - name: ewr
    zookeeper: {{embedded: main}}
    brokers: [{{id: 1, host: 127.0.1.1, port: {1}}}]
    config: {{num.partitions: 1}}
  - name: nyc
    zookeeper: {{embedded: main}}
    brokers: [{{id: 1, host: 127.0.1.2, port: {2}}}]
    config: {{num.partitions: 1}}
"""
KILLED_BEFORE_ITS_NOTE = """\
import os, signal
from topology.shared_file import agreement
write = agreement.write_seen
def write_or_die(state, seen):
    if seen.claim is None:
        os.kill(os.getpid(), signal.SIGKILL)
    write(state, seen)
agreement.write_seen = write_or_die
from topology.main import main
main()
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    text = TOPOLOGY.format(*quiet_ports(3))
    found = []
    for name in ("127.0.1.1", "127.0.1.2"):
        file = tmp_path / f"{name}.yaml"
        file.write_text(text)
        found.append(Host(tmp_path / name, file, name))
    yield found[0], found[1]
    for host in found:
        if host.command.state_dir.exists():
            host.command.run("down", "--purge")


def edit(host: Host, cluster: str, partitions: int) -> None:
    before, found, after = host.command.file.read_text().partition(f"  - name: {cluster}\n")
    line, old, rest = after.partition("num.partitions: 1}")
    assert found and old
    host.command.file.write_text(f"{before}{found}{line}num.partitions: {partitions}}}{rest}")


def standing(document: Any) -> tuple[str, int, str]:
    file = document["file"]
    return file["state"], file["generation"], file["host"]


def test_edits_of_two_hosts_follow_one_another_or_conflict(hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    of_first, of_second = f"host {first.name}", f"host {second.name}"
    up = first.up()
    assert standing(up) == ("same", 1, of_first)
    running = pids(up)
    up = second.up()
    assert standing(up) == ("same", 1, of_first)

    edit(second, "nyc", 2)
    assert second.command.run("plan", *part(second))["file"]["state"] == "advance"
    with socket.create_server((second.name, 0)) as taken:
        text = second.command.file.read_text()
        more = f"{{id: 2, host: {second.name}, port: {taken.getsockname()[1]}}}]"
        one, _, rest = text.rpartition("}]")
        second.command.file.write_text(f"{one}}}, {more}{rest}")
        refusal = second.command.complain("up", *part(second))
        assert "some ports cannot be used; nothing was started" in refusal
        assert standing(first.command.run("status")) == ("same", 1, of_first)
        second.command.file.write_text(text)
    up = second.up()
    assert standing(up) == ("same", 2, of_second)
    running_second = pids(up)
    status = first.command.run("status")
    assert (standing(status), status["state"]) == (("behind", 2, of_second), "running")
    changed = [line for line in status["file"]["diff"] if "partitions" in line and line[0] in "+-"]
    assert [line.split()[0] for line in changed] == ["-", "+"]
    plan = first.command.run("plan", *part(first))
    assert (standing(plan), plan["steps"]) == (("behind", 2, of_second), [])
    up = first.up()
    assert standing(up) == ("behind", 2, of_second)
    assert pids(up) == running, "behind is not wrong"

    edit(first, "ewr", 3)
    refusal = first.command.complain("up", *part(first), code=EXIT_CONFLICT)
    assert f"generation 2 of {of_second}" in refusal
    assert f"the file of {of_first}" in refusal
    assert "--replace-generation 2" in refusal
    assert refusal.count("num.partitions") >= 4, "both edits are in the diff"
    assert all(psutil.pid_exists(pid) for pid in running.values()), "nothing was changed"
    edit(first, "nyc", 2)
    merged = first.command.run("up", *part(first), "--replace-generation", "2")
    assert standing(merged) == ("same", 3, of_first)
    assert pids(merged)["broker-ewr-1"] != running["broker-ewr-1"]
    second.command.file.write_text(first.command.file.read_text())
    up = second.up()
    assert standing(up) == ("same", 3, of_first)
    assert pids(up) == running_second

    first.command.file.write_text(first.command.file.read_text().replace("name: nyc", "name: lga"))
    assert standing(first.up()) == ("same", 4, of_first)
    refusal = second.command.complain("up", *part(second))
    assert f"behind generation 4 of {of_first}" in refusal
    assert f"broker 1 of nyc does not belong to {of_second}" in refusal
    assert all(psutil.pid_exists(pid) for pid in running_second.values())


def test_a_kill_between_zookeeper_and_the_note_is_no_conflict(hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    of_first = f"host {first.name}"
    up = first.up()
    assert standing(up) == ("same", 1, of_first)
    running = pids(up)
    edit(first, "nyc", 2)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_BEFORE_ITS_NOTE, "up", *part(first), *options(first)],
        cwd=Path(__file__).resolve().parents[3],
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert standing(second.command.run("plan", *part(second))) == ("behind", 2, of_first)
    edit(first, "ewr", 3)
    up = first.up()
    assert standing(up) == ("same", 3, of_first), "generation 2 is its own"
    assert pids(up)["broker-ewr-1"] != running["broker-ewr-1"]


def part(host: Host) -> tuple[str, ...]:
    return (str(host.command.file), "--host", host.name)


def options(host: Host) -> tuple[str, ...]:
    command: HeliographCommand = host.command
    return command.options


def test_a_znode_changes_only_from_what_was_read(zookeeper: str, tmp_path: Path) -> None:
    place = ZooKeeperAccess(connect=f"{zookeeper}/t{uuid.uuid4().hex[:8]}")
    first = Generation(number=1, text="one", host="a", written_at="t")
    second = replace(first, number=2, text="two", former=(first.digest,))
    empty = Held()
    assert read_generations([place]) == {place.connect: empty}
    write_generation(place, first, empty)
    with pytest.raises(Overtaken):
        write_generation(place, second, empty)
    held = read_generations([place])[place.connect]
    assert held == Held(generation=first, version=0)
    write_generation(place, second, held)
    with pytest.raises(Overtaken):
        write_generation(place, first, held)
    assert read_generations([place])[place.connect] == Held(generation=second, version=1)

    password = tmp_path / "password"
    password.write_text("word")
    user = ZooKeeperSecurity(username="broker", password=Secret(file=str(password)))
    closed = replace(place, connect=f"{place.connect}/closed", security=user, sets_acl=True)
    write_generation(closed, first, empty)
    stranger = replace(closed, security=NO_ZOOKEEPER_USER)
    held = read_generations([stranger])[closed.connect]
    assert isinstance(held, Held)
    with pytest.raises(Silent, match="NoAuth"):
        write_generation(stranger, second, held)
    write_generation(closed, second, held)

    nobody = ZooKeeperAccess(connect=f"127.0.0.1:{quiet_ports(1)[0]}/x")
    assert "does not answer" in str(read_generations([nobody])[nobody.connect])
    client = KazooClient(place.connect)
    client.start()
    client.set(PATH, b'{"version": 99}')
    client.stop()
    client.close()
    assert "a newer version" in str(read_generations([place])[place.connect])
