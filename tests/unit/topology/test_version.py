"""What the command says of itself, and of extras that are missing."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from topology import version as version_module
from topology.deployment import zookeeper
from topology.main import app

CONFIGS = Path(__file__).resolve().parents[3] / "configs"


def test_version_commit_interpreter_and_extras() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith(f"heliograph {version('heliograph')} (")
    extras = ("embedded", "spark", "iceberg", "delta", "duckdb", "decoding", "serve", "demo")
    assert " ".join(f"{extra}: yes" for extra in extras) in result.output


def test_the_commit_of_a_wheel_is_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_module, "_HERE", tmp_path / "topology")
    assert version_module.commit() == "unknown"
    (tmp_path / "topology").mkdir()
    (tmp_path / "topology" / "commit.txt").write_text("abc123\n")
    assert version_module.commit() == "abc123"


@pytest.mark.parametrize(("command", "extra"), [("demo", "demo")])
def test_a_missing_extra_is_named(
    command: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(version_module.EXTRAS, extra, ("no_such_module",))
    result = CliRunner().invoke(app, [command])
    assert result.exit_code == 1
    assert f"pip install 'heliograph[{extra}]'" in result.output


def test_a_missing_zookeeper_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(zookeeper, "find_spec", lambda _: None)
    arguments = ["up", str(CONFIGS / "one-broker.yaml"), "--state-dir", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "pip install 'heliograph[embedded]'" in result.output
