"""Rendered containers: each command with its settings, as processes of loopback addresses."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.client.client import KafkaClient
from topology.file.load import parse_topology
from topology.rendering.compose import compose_files
from topology.rendering.containers import (
    PYTHON,
    Container,
    containers_of,
    rendered,
)
from topology.rendering.placed import ANY_ADDRESS, Place, placed
from topology.rendering.processes import CONFIGURATION, STATE

pytestmark = pytest.mark.real

FILE = """\
name: contained
clusters:
  - name: jfk
    listeners:
      - name: SECURE
        security_protocol: SASL_PLAINTEXT
        sasl:
          mechanisms: [SCRAM-SHA-512]
          users: {broker: {file: broker}, admin: {file: admin}}
    inter_broker_security: &broker
      protocol: SASL_PLAINTEXT
      mechanism: SCRAM-SHA-512
      username: broker
      password: {file: broker}
    security:
      <<: *broker
      username: admin
      password: {file: admin}
    authorizer: {super_users: ["User:admin"]}
    users: {alice: {file: alice}}
    acls: [{principal: "User:alice", operations: [CREATE, WRITE], topics: [t]}]
    brokers: [{id: 1, port: 9092}]
"""
USERS = ("broker", "admin", "alice")
HOSTS = {"zookeeper": "127.0.21.1", "broker": "127.0.21.2"}
READY_SECONDS_MAX = 60.0
REPOSITORY = Path(__file__).parents[3]


def address(place: Place) -> str:
    return HOSTS.get(place.role, "127.0.21.3")


def command_here(container: Container, directory: Path) -> list[str]:
    """Write the settings, and return the command, with the paths and addresses of this machine."""

    def here(text: str) -> str:
        own = HOSTS.get(container.place.role, ANY_ADDRESS)
        text = text.replace(STATE, str(directory / container.name / "state"))
        return text.replace(CONFIGURATION, str(directory)).replace(ANY_ADDRESS, own)

    settings = directory / container.name / "state" / "settings"
    settings.mkdir(parents=True)
    (settings.parent / "ready").mkdir()
    for name, text in container.settings.items():
        (settings / name).write_text(here(text))
    first = str(settings / next(iter(container.settings)))
    command = container.command(first, str(container.place.number))
    return [sys.executable, *command[1:]]


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, cwd=REPOSITORY)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


async def until_well(process: subprocess.Popen[bytes], *what: str) -> None:
    """Wait until the check of the container exits with 0."""
    check = [sys.executable, "-P", "-m", "topology.container_check", *what]
    async with asyncio.timeout(READY_SECONDS_MAX):
        while True:
            assert process.poll() is None
            found = await asyncio.create_subprocess_exec(*check, cwd=REPOSITORY)
            if await found.wait() == 0:
                return
            await asyncio.sleep(0.3)


async def test_containers_serve_and_the_job_applies_users_and_acls(tmp_path: Path) -> None:
    for user in USERS:
        (tmp_path / user).write_text(f"{user}-secret\n")
    topology = placed(parse_topology(FILE), address)
    containers = {each.place.role: each for each in containers_of(rendered(topology))}
    assert all(each.command("", "")[0] == PYTHON for each in containers.values())
    commands = {role: command_here(each, tmp_path) for role, each in containers.items()}
    with running(commands["zookeeper"]) as zookeeper:
        await until_well(zookeeper, "zookeeper", commands["zookeeper"][-1])
        with running(commands["broker"]) as broker:
            url = f"http://{HOSTS['broker']}:8080/readyz?in_sync=1"
            await until_well(broker, "http", url)
            job = await asyncio.create_subprocess_exec(*commands["rights"], cwd=REPOSITORY)
            assert await job.wait() == 0
            alice = ClientSecurity(
                protocol="SASL_PLAINTEXT",
                mechanism="SCRAM-SHA-512",
                username="alice",
                password=Secret(file=str(tmp_path / "alice")),
            )
            client = KafkaClient(f"{HOSTS['broker']}:9092", client_id="t", security=alice)
            try:
                assert set((await client.metadata([])).brokers) == {1}
            finally:
                await client.close()
    assert (tmp_path / containers["broker"].name / "state/data/jfk/broker-1").is_dir()


async def test_a_check_of_a_process_that_is_not_there_fails(tmp_path: Path) -> None:
    config = tmp_path / "zookeeper.cfg"
    config.write_text("clientPortAddress=127.0.21.9\nclientPort=2181\n")
    for what in (["http", "http://127.0.21.9:8080/healthz"], ["zookeeper", str(config)]):
        check = [sys.executable, "-P", "-m", "topology.container_check", *what]
        found = subprocess.run(check, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        assert found.returncode == 1
        assert "127.0.21.9" in found.stderr or "refused" in found.stderr


@pytest.mark.docker
@pytest.mark.long
def test_the_quickstart_runs_under_compose(tmp_path: Path) -> None:
    from testcontainers.compose import DockerCompose

    docker = shutil.which("docker")
    if (
        docker is None
        or subprocess.run([docker, "info"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no Docker engine")
    image = "heliograph:test"
    file = REPOSITORY / "configs/quickstart.yaml"
    build = ["docker", "build", "-f", "Containerfile", "-t", image, "."]
    subprocess.run(build, cwd=REPOSITORY, check=True)
    topology = parse_topology(file.read_text())
    for name, text in compose_files(topology, image=image, source=file).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with DockerCompose(str(tmp_path), compose_file_name="compose.yaml", wait=True) as stack:
        assert {each.Health for each in stack.get_containers()} == {"healthy"}
