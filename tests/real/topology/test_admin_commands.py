"""`heliograph topic|group|config|broker|transaction` on a real broker of ours."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import admin_scenario
from tests.support.admin_scenario import Commands
from tests.support.cluster import running_broker

pytestmark = pytest.mark.real

PAGE = Path(__file__).parents[3] / "docs" / "operations" / "cluster-commands.md"


@pytest.fixture(scope="module")
def on(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Commands on one broker for the whole module."""
    loop = asyncio.new_event_loop()
    running = running_broker(zookeeper, tmp_path_factory.mktemp("commands"))
    broker = loop.run_until_complete(running.__aenter__())
    try:
        yield Commands(broker.bootstrap)
    finally:
        loop.run_until_complete(running.__aexit__(None, None, None))
        loop.close()


def test_topics(on: Commands) -> None:
    admin_scenario.topics(on)


def test_trimming(on: Commands) -> None:
    admin_scenario.trimming(on)


def test_deletion(on: Commands) -> None:
    admin_scenario.deletion(on)


def test_groups(on: Commands) -> None:
    admin_scenario.groups(on)


def test_configs(on: Commands) -> None:
    admin_scenario.configs(on)


def test_brokers(on: Commands) -> None:
    admin_scenario.brokers(on)


def test_transactions(on: Commands) -> None:
    admin_scenario.transactions(on, admin_scenario.open_transaction)


def test_a_cluster_that_does_not_answer_is_named() -> None:
    admin_scenario.unreachable()


def test_the_examples_of_the_page_run(
    on: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the page's order, on one cluster; a line may rely on the lines before it."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) > 20
    on.run("topic", "delete", "ord.*", "--regex", "--yes")
    monkeypatch.chdir(tmp_path)
    Path("examples.txt").write_text("a:1\nb:2\n")
    for line in lines:
        name, *words = shlex.split(line)
        assert name == "heliograph"
        result = on.run(*words)
        assert result.exit_code == 0, f"{line}: {result.output}"
        assert result.stdout
