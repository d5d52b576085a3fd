"""Every command on a cluster names one that does not answer; every command on a deployment says
that there is none. The commands come from the parser, so that a new one is asked too."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.support.asked_commands import AskedCommands
from tests.support.parsed_commands import parsed_commands, takes

WORDS: Final = {
    "topic describe": "t",
    "topic create": "t",
    "topic alter": "t -p 2",
    "topic delete": "t --yes",
    "topic trim": "t --before 1 --yes",
    "group describe": "g",
    "group reset": "g --topic t --to end --yes",
    "group delete": "g --yes",
    "group forget": "g --topic t --yes",
    "acl create": "User:a READ --topic t",
    "acl delete": "User:a READ --topic t --yes",
    "user create": "a --password-env PASSWORD",
    "user alter": "a --password-env PASSWORD",
    "user delete": "a --yes",
    "quota set": "producer_byte_rate=1 --user a",
    "quota remove": "--user a --yes",
    "config describe": "topic t",
    "config set": "topic t retention.ms=1",
    "broker describe": "1",
    "transaction describe": "t",
    "transaction producers": "t 0",
    "transaction abort": "t 0 --start-offset 1 --yes",
    "produce": "t",
    "consume": "t",
    "why": "t",
    "trace": "t:0:0",
    "link describe": "l",
    "mirror pause": "--link l",
    "mirror resume": "--link l",
    "mirror throttle": "--link l --source 1",
    "mirror retry": "--link l",
    "mirror repair": "l t 0",
    "spark materialize": "v p",
    "spark serve": "v --to c:t --checkpoint p",
    "spark move-table": "c --table a.b --to x",
    "spark translate-checkpoint": "a b --to x",
    "sql": "Q",
    "top": "--once",
    "down": "--yes",
}
"""What a command needs beside its cluster or deployment."""
COMMANDS: Final = parsed_commands()
ON_A_CLUSTER: Final = sorted(name for name, each in COMMANDS.items() if takes(each, "--bootstrap"))
ON_A_DEPLOYMENT: Final = sorted(
    name for name, each in COMMANDS.items() if takes(each, "deployment", "--deployment")
)


def test_both_lists_are_long() -> None:
    assert len(ON_A_CLUSTER) > 30 and len(ON_A_DEPLOYMENT) > 60
    assert not WORDS.keys() - COMMANDS.keys()


@pytest.mark.parametrize("name", ON_A_CLUSTER)
def test_a_cluster_that_does_not_answer_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSWORD", "secret")
    monkeypatch.setattr("local_cluster.client.calls.RETRY_SECONDS_MAX", 0)
    on = AskedCommands("--bootstrap", "127.0.0.1:1")
    said = on.refusal(*name.split(), *WORDS.get(name, "").split())
    assert "127.0.0.1:1" in said
    assert said.startswith("heliograph: ")


@pytest.mark.parametrize("name", ON_A_DEPLOYMENT)
def test_without_a_deployment(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("PASSWORD", "secret")
    on = AskedCommands()
    said = on.refusal(*name.split(), *WORDS.get(name, "").split())
    assert said == "heliograph: nothing is deployed\n"
    assert not list(tmp_path.iterdir())
