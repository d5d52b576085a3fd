"""Names that the shell completes from files, and silence where nothing can be completed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.completion import completed
from tests.support.quiet_ports import quiet_port
from topology.deployment.deployment import encode_deployment
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology

TOPOLOGY = """\
name: shop
clusters:
  - {{name: ewr, brokers: [{{id: 1, port: {0}}}]}}
  - {{name: east, brokers: [{{id: 1, port: {1}}}]}}
  - {{name: all, kind: aggregate, brokers: [{{id: 1, port: {2}}}]}}
links:
  - {{source: ewr, target: all, topics: [t]}}
  - {{source: east, target: all, topics: [t]}}
"""


@pytest.fixture(autouse=True)
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deployment that does not run, and another one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    text = TOPOLOGY.format(*(quiet_port() for _ in range(3)))
    for name in ("shop", "shed"):
        state = StateDir.for_name(name)
        topology = parse_topology(text.replace("name: shop", f"name: {name}"))
        state.path.mkdir(parents=True)
        found = render(topology, state, topology_file=tmp_path / "t.yaml")
        state.deployment_file.write_text(encode_deployment(found))


def test_deployments_clusters_and_links() -> None:
    assert completed("status", "") == ["shed", "shop"]
    assert completed("topic", "list", "--deployment", "sho") == ["shop"]
    assert completed("topic", "list", "--deployment", "shop", "-c", "e") == ["east", "ewr"]
    assert completed("trace", "--deployment", "shop", "--cluster", "a") == ["all"]
    here = str(StateDir.for_name("shop").path)
    assert completed("mirror", "pause", "--state-dir", here, "--link", "ew") == ["ewr-all"]
    assert completed("link", "describe", "--state-dir", here, "ea") == ["east-all"]
    assert completed("why", "t", "--deployment", "shop", "--link", "") == ["east-all", "ewr-all"]


def test_what_cannot_be_known_completes_nothing_and_says_nothing() -> None:
    """Two deployments and no name, a name that is wrong, a cluster that does not run."""
    assert completed("topic", "list", "-c", "") == []
    assert completed("topic", "list", "--deployment", "nowhere", "-c", "") == []
    for noun in ("topic", "group"):
        assert completed(noun, "describe", "--deployment", "shop", "-c", "ewr", "") == []
        assert completed(noun, "describe", "--bootstrap", "no address", "") == []
