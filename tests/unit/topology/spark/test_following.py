"""Queries that go on get the links that a deployment has by now."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from spark_global.followed_links import FollowedLinks
from topology.deployment.aggregate_view import aggregate_view
from topology.deployment.deployment import Deployment, encode_deployment
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.spark.following import followed

SECONDS_MAX: Final = 30.0
BEFORE: Final = """\
name: two
clusters:
  - {name: jfk, datacenter: Kennedy, brokers: {count: 1, base_port: 19092}}
  - {name: ewr, datacenter: Newark, brokers: {count: 1, base_port: 19192}}
  - {name: nyc, kind: aggregate, brokers: {count: 1, base_port: 19292}}
links:
  - {source: jfk, target: nyc, topics: [t]}
"""
ADDED: Final = "  - {source: ewr, target: nyc, topics: [t]}\n"


def wait_for(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def rendered(directory: Path, text: str) -> Deployment:
    state = StateDir(directory)
    return render(parse_topology(text), state, topology_file=directory / "two.yaml")


def test_a_link_that_up_adds_is_in_the_file_with_its_datacenter(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    aggregate = aggregate_view(rendered(tmp_path, BEFORE), "nyc")
    with followed(aggregate, state, look_seconds=0.01) as there:
        assert there.links == aggregate.links and there.links_file is not None
        links = FollowedLinks(there.links, there.links_file)
        assert [link.datacenter for link in links.now()] == ["Kennedy"]
        state.deployment_file.write_text("{")  # it is being written
        more = rendered(tmp_path, BEFORE + ADDED)
        state.deployment_file.write_text(encode_deployment(more))
        wait_for(lambda: len(links.now()) == 2)
        assert {link.name: link.datacenter for link in links.now()} == {
            "jfk-nyc": "Kennedy",
            "ewr-nyc": "Newark",
        }
    assert not Path(there.links_file).exists()
    assert len(links.now()) == 2, "the last ones stay"
