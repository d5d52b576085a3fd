"""Compose files that `heliograph render compose` writes, read by the parser of Docker Compose."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.fetched_program import built
from topology.file.load import load_topology
from topology.rendering.compose import compose_files

pytestmark = pytest.mark.real

CONFIGS = Path(__file__).parents[2] / "configs"
FETCH = ["go", "mod", "download"]
BUILD = ["go", "build", "-mod=readonly", "-o", "compose_check", "."]


@pytest.mark.parametrize("name", ["quickstart", "secure", "three-brokers", "two-datacenters"])
def test_docker_compose_reads_the_file(name: str, tmp_path: Path) -> None:
    check = built(Path(__file__).parent / "compose", "go", FETCH, BUILD) / "compose_check"
    file = CONFIGS / f"{name}.yaml"
    for path, text in compose_files(load_topology(file), image="heliograph", source=file).items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    compose = str(tmp_path / "compose.yaml")
    read = subprocess.run([check, compose], capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr
    project, services = read.stdout.split()
    assert project == name and int(services) > 0
