"""The wheel, installed into a fresh environment, does its work there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_cluster.compilation.finder import install as compiled_modules
from tests.support.quiet_ports import quiet_ports

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[3]
UV = Path(sys.executable).with_name("uv")
INSTALL_SECONDS_MAX = 240
COMMAND_SECONDS_MAX = 120
IS_COMPILED = compiled_modules().directory is not None


def run(*command: object, cwd: Path, seconds: float = COMMAND_SECONDS_MAX) -> str:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYTHONPATH", "VIRTUAL_ENV"}
    }
    if IS_COMPILED:
        environment["HELIOGRAPH_COMPILE"] = "1"  # the wheel takes this build
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build = ["build", "--quiet", "--wheel", "--no-build-isolation"]
    run(UV, *build, "--python", sys.executable, "--out-dir", out, ROOT, cwd=ROOT)
    return next(out.glob("*.whl"))


def install(wheel: Path, place: Path, extra: str = "") -> Path:
    """A fresh environment with the wheel and what it requires, as the lock file has it."""
    run(UV, "venv", "--quiet", "--python", sys.executable, place / "venv", cwd=place)
    python = place / "venv" / "bin" / "python"
    constraints = place / "constraints.txt"
    pins = [
        line.rstrip(" \\")
        for line in (ROOT / "requirements.lock").read_text().splitlines()
        if "==" in line and not line.startswith((" ", "#"))
    ]
    constraints.write_text("\n".join(pins))
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    install = ["pip", "install", "--quiet", "--python", python, "-c", constraints, wanted]
    done = subprocess.run(
        [str(UV), *(str(each) for each in install)],
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"no package index is reached: {done.stderr.strip().splitlines()[-1]}")
    return python.with_name("heliograph")


def test_the_base_is_enough_for_files_and_names_what_is_missing(
    wheel: Path, tmp_path: Path
) -> None:
    heliograph = install(wheel, tmp_path)
    quickstart = ROOT / "configs" / "quickstart.yaml"
    said = run(heliograph, "--version", cwd=tmp_path)
    assert "embedded: no (pip install heliograph[embedded])" in said
    assert "(unknown)" not in said
    assert ("\ncompiled modules\n" in said) == IS_COMPILED, said
    run(heliograph, "validate", quickstart, cwd=tmp_path)
    up = subprocess.run(
        [str(heliograph), "up", str(quickstart), "--state-dir", str(tmp_path / "state")],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    assert up.returncode == 1
    assert "pip install 'heliograph[embedded]'" in up.stderr + up.stdout


TOPOLOGY = """
name: installed
zookeepers:
  - {{name: main, port: {ports[0]}}}
clusters:
  - name: a
    brokers: {{count: 1, base_port: {ports[1]}}}
  - name: b
    brokers: {{count: 1, base_port: {ports[2]}}}
links:
  - {{source: a, target: b, topics: ["orders"]}}
"""


@pytest.fixture
def deployment(wheel: Path, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    heliograph = install(wheel, tmp_path, "embedded")
    file = tmp_path / "topology.yaml"
    file.write_text(TOPOLOGY.format(ports=quiet_ports(3)))
    state = ["--state-dir", tmp_path / "state"]
    run(heliograph, "up", file, *state, cwd=tmp_path)
    yield heliograph, file
    run(heliograph, "down", *state, "--purge", cwd=tmp_path)


def test_up_status_and_mirror_run(deployment: tuple[Path, Path], tmp_path: Path) -> None:
    heliograph, file = deployment
    said = run(heliograph, "status", "--state-dir", tmp_path / "state", cwd=tmp_path)
    assert "a-b" in said
    # A second worker, as on another host.
    worker = subprocess.Popen(
        [str(heliograph), "mirror", "run", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
    )
    said = ""
    try:
        assert worker.stdout is not None
        for line in worker.stdout:
            said += line
            if "running, http on" in line:
                break  # from now on it stops cleanly
        with pytest.raises(subprocess.TimeoutExpired):
            worker.wait(5)  # it works until it is stopped
    finally:
        worker.terminate()
        output, _ = worker.communicate(timeout=COMMAND_SECONDS_MAX)
    assert worker.returncode == 0, said + output
