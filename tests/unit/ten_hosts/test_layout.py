"""The topology files of the ten hosts are valid, and say what the campaign means."""

from __future__ import annotations

from pathlib import Path

from tests.ten_hosts.layout import FIRST_HOSTS, LOST_HOST, NEW_HOST, SUCCESSOR, Layout
from tests.unit.referee.test_independence import ROOT, check_imports, reached
from topology.deployment.parts_of_hosts import hosts_of
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology

ADDRESSES = {number: f"10.77.0.{number}" for number in (*FIRST_HOSTS, NEW_HOST, SUCCESSOR)}


def hosts_that_run_something(layout: Layout, directory: Path) -> set[str]:
    topology = parse_topology(layout.text())
    deployment = render(topology, StateDir(directory), topology_file=directory / "shop.yaml")
    return set(hosts_of(deployment))


def test_every_host_runs_something_in_every_phase(tmp_path: Path) -> None:
    first = Layout(ADDRESSES)
    assert len(first.hosts) == 10
    for layout in (first, first.grown(), first.grown().replaced()):
        expected = {ADDRESSES[number] for number in layout.hosts}
        assert hosts_that_run_something(layout, tmp_path) == expected


def test_a_new_host_and_a_successor_come_in(tmp_path: Path) -> None:
    layout = Layout(ADDRESSES).grown()
    assert layout.brokers("ewr") == {1: 1, 2: 2, 3: 3, 4: NEW_HOST}
    assert layout.brokers("nyc")[2] == layout.brokers("jfk")[3] == LOST_HOST
    replaced = layout.replaced()
    assert replaced.brokers("nyc")[2] == replaced.brokers("jfk")[3] == SUCCESSOR
    assert ADDRESSES[LOST_HOST] not in hosts_that_run_something(replaced, tmp_path)


def test_no_module_of_the_product_is_reached() -> None:
    """The campaign shares no code with what it judges."""
    check_imports(reached(sorted((ROOT / "tests" / "ten_hosts").rglob("*.py"))))
