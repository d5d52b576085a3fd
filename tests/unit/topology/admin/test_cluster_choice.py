"""The cluster of a command: by address, or by its name in a topology file."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from topology.admin.cluster_choice import ClusterChoice
from topology.main import NOUNS, app

CONFIGS = Path(__file__).resolve().parents[4] / "configs"
OURS = {"acl", "topic", "group", "config", "broker", "transaction", "link"}
QUICKSTART = str(CONFIGS / "quickstart.yaml")


@pytest.fixture(autouse=True)
def own_state_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_a_cluster_of_a_file_that_is_not_deployed() -> None:
    found = ClusterChoice(cluster="nyc", deployment=QUICKSTART).find()
    assert (found.name, found.bootstrap.count(":")) == ("nyc", found.bootstrap.count(",") + 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "nothing is deployed"),
        (("--deployment", QUICKSTART), "name the --cluster of quickstart; there are: "),
        (("--deployment", QUICKSTART, "-c", "nyv"), "no cluster 'nyv'; did you mean 'nyc'?"),
        (("--bootstrap", "h:1", "-c", "nyc"), "name either --bootstrap or a --cluster"),
        (("--security", "s.yaml"), "--security goes with --bootstrap"),
        (("--bootstrap", "nowhere"), "heliograph: --bootstrap 'nowhere': "),
    ],
)
def test_refusals(options: tuple[str, ...], message: str) -> None:
    result = run("topic", "list", *options)
    assert (result.exit_code in (1, 2), result.stdout) == (True, "")
    assert message in result.stderr


def test_every_subcommand_has_help_and_the_three_formats() -> None:
    for noun, group in NOUNS.items():
        for command in group.registered_commands:
            assert command.callback is not None
            name = command.name or command.callback.__name__
            result = run(noun, name, "--help")
            assert result.exit_code == 0, (noun, name, result.output)
            assert "Usage:" in result.output
            if noun in OURS:
                assert "yaml" in result.output, (noun, name)


@pytest.mark.parametrize("noun", ["list", "describe"])
def test_links_of_a_deployment_that_is_not_there(noun: str) -> None:
    result = run("link", noun, *(["a-b"] if noun == "describe" else []))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "nothing is deployed" in result.stderr
