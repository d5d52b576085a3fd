"""What an edited file may change in an ensemble, and which nodes restart for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from topology.deployment.deployment import Deployment, Part
from topology.deployment.parts_of_hosts import part_here
from topology.deployment.plan import Running, plan
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.ensemble.nodes import (
    add_growth,
    ensemble_problems,
    ensembles_of,
    growths,
    is_moving,
    moved_numbers,
    with_kept_nodes,
)
from topology.file.load import parse_topology

STATE = StateDir(Path("/s"))
HOSTS = tuple(f"10.0.0.{number}" for number in range(1, 6))


def deployed(zookeeper: str, host: str | None = None) -> Deployment:
    text = f"""\
name: t
zookeepers: [{{name: main, port: 2181, {zookeeper}}}]
clusters: [{{name: ewr, brokers: [{{id: 1, host: {host or "127.0.0.1"}, port: 9092}}]}}]
"""
    whole = render(parse_topology(text), STATE, topology_file=Path("/t.yaml"))
    return whole if host is None else part_here(whole, Part(host=host), lambda _: False)


def over(count: int, host: str, hosts: tuple[str, ...] = HOSTS) -> Deployment:
    return deployed(f"hosts: [{', '.join(hosts[:count])}], allow_insecure: true", host)


ONE, THREE = deployed("nodes: 1"), deployed("nodes: 3")


def test_the_members_of_an_ensemble_have_their_addresses() -> None:
    ensemble = ensembles_of(over(3, HOSTS[1]))["main"]
    assert [each.host for each in ensemble.nodes] == list(HOSTS[:3])
    assert ensemble.members[2] == "10.0.0.2:2182:2183:participant;10.0.0.2:2181"


def test_one_node_grows_where_it_is() -> None:
    (growth,) = growths(ONE, THREE)
    assert growth.sentence() == "ZooKeeper main grows from 1 to 3 nodes"
    assert not is_moving(growth)
    assert ensemble_problems(ONE, THREE) == []
    (moving,) = growths(ONE, over(3, HOSTS[0]))
    assert is_moving(moving)
    running = {each.key: Running.of(each) for each in ONE.daemons}
    steps = add_growth(plan(THREE.daemons, running), [growth])
    of_nodes = [each for each in steps if each.key.startswith("zookeeper")]
    assert {each.reasons for each in of_nodes} == {(growth.sentence(),)}
    assert len(of_nodes) == 4


def test_nothing_grows_that_is_new_or_the_same() -> None:
    assert growths(None, THREE) == growths(THREE, THREE) == growths(ONE, ONE) == []


def test_an_ensemble_does_not_shrink() -> None:
    (problem,) = ensemble_problems(THREE, ONE)
    assert problem == (
        "ZooKeeper main has 3 nodes, and the file has 1: an ensemble does not shrink"
    )


@pytest.mark.parametrize("host", HOSTS[:3])
def test_hosts_keep_their_places(host: str) -> None:
    alone = deployed(f"host: {HOSTS[0]}, allow_insecure: true", HOSTS[0])
    first_last = (HOSTS[1], HOSTS[2], HOSTS[0])
    assert ensemble_problems(over(3, host), over(5, host)) == []
    (problem, *_) = ensemble_problems(over(3, host), over(3, host, first_last))
    assert "hosts keep their places" in problem
    if host == HOSTS[0]:
        assert ensemble_problems(alone, over(3, host)) == []
        (problem,) = ensemble_problems(alone, over(3, host, first_last))
        assert "node 1 of ZooKeeper main runs on this host" in problem


def test_a_new_host_sees_that_others_have_other_numbers() -> None:
    wanted = ensembles_of(over(3, HOSTS[0]))["main"]
    assert moved_numbers(wanted, {1: wanted.members[1]}) == []
    assert moved_numbers(wanted, {1: "x;10.9.9.9:2181", 2: wanted.members[2]}) == [], "replaced"
    (problem,) = moved_numbers(wanted, {1: wanted.members[2]})
    assert problem.startswith("10.0.0.2 is node 1 of ZooKeeper main, and the file has it as node 2")


def test_a_host_is_replaced_in_its_place() -> None:
    replaced = (HOSTS[0], HOSTS[4], HOSTS[2])
    assert ensemble_problems(over(3, HOSTS[0]), over(3, HOSTS[0], replaced)) == []
    both = (*replaced, HOSTS[1], HOSTS[3])
    (problem,) = ensemble_problems(over(3, HOSTS[0]), over(5, HOSTS[0], both))
    assert "one after the other" in problem


def test_nodes_of_an_older_version_run_once_before_they_grow() -> None:
    before = over(3, HOSTS[0])
    older = replace(before, daemons=tuple(replace(each, member="") for each in before.daemons))
    (problem,) = ensemble_problems(older, over(5, HOSTS[0]))
    assert "run `heliograph up` with its 3 nodes first" in problem


def test_nodes_do_not_restart_for_new_members_alone() -> None:
    before, after = over(3, HOSTS[0]), over(5, HOSTS[0])
    running = {each.key: each for each in before.daemons}
    kept = with_kept_nodes(after, running)
    assert kept.daemon("zookeeper-main.1").digest == running["zookeeper-main.1"].digest
    assert len(kept.daemon("zookeeper-main.1").quorum) == 5
    assert kept.daemon("broker-ewr-1").digest != running["broker-ewr-1"].digest
    replaced = over(3, HOSTS[0], (HOSTS[0], HOSTS[4], HOSTS[2]))
    for other in (replaced, over(5, HOSTS[0], (HOSTS[0], HOSTS[4], *HOSTS[2:4], HOSTS[1]))):
        changed = with_kept_nodes(other, running).daemon("zookeeper-main.1")
        assert changed.digest != running["zookeeper-main.1"].digest, "an address changed"
