"""Growing a cluster restarts no mirror worker and no aggregator; anything else does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from topology.deployment.deployment import Daemon, Deployment
from topology.deployment.plan import Running, plan, with_kept_services
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology

TOPOLOGY = """\
name: grows
clusters:
  - {{name: jfk, brokers: [{jfk}]}}
  - {{name: ewr, brokers: [{{id: 1, port: 9301}}]}}
  - {{name: nyc, kind: aggregate, brokers: [{nyc}]}}
links:
  - {{source: jfk, target: nyc, topics: [{topics}]}}
  - {{source: ewr, target: nyc, topics: [flights]}}
"""
THREE = (1, 2, 3)
SERVICES = ("mirror-nyc", "aggregator-nyc")


def deployed(
    jfk: tuple[int, ...] = THREE, nyc: tuple[int, ...] = THREE, topics: str = "t"
) -> Deployment:
    def brokers(ids: tuple[int, ...], base: int) -> str:
        return ", ".join(f"{{id: {each}, port: {base + each}}}" for each in ids)

    text = TOPOLOGY.format(jfk=brokers(jfk, 9100), nyc=brokers(nyc, 9200), topics=topics)
    return render(parse_topology(text), StateDir(Path("/state")), topology_file=Path("/t.yaml"))


def running(deployment: Deployment) -> dict[str, Daemon]:
    return {each.key: each for each in deployment.daemons}


def steps(after: Deployment, known: Mapping[str, Daemon]) -> dict[str, str]:
    kept = with_kept_services(after, known)
    found = plan(kept.daemons, {key: Running.of(each) for key, each in known.items()})
    return {each.key: each.action for each in found}


@pytest.mark.parametrize(
    ("after", "started"),
    [
        (deployed(jfk=(*THREE, 4)), {"broker-jfk-4"}),
        (deployed(jfk=(4, *THREE)), {"broker-jfk-4"}),
        (deployed(nyc=(*THREE, 4, 5)), {"broker-nyc-4", "broker-nyc-5"}),
        (deployed(jfk=(*THREE, 4), nyc=(*THREE, 4)), {"broker-jfk-4", "broker-nyc-4"}),
    ],
)
def test_a_cluster_grows_and_no_service_restarts(after: Deployment, started: set[str]) -> None:
    assert steps(after, running(deployed())) == dict.fromkeys(started, "start")


def test_a_kept_service_waits_for_the_new_brokers_when_it_starts_again() -> None:
    kept = with_kept_services(deployed(nyc=(*THREE, 4)), running(deployed()))
    for key in SERVICES:
        assert kept.daemon(key).files == deployed().daemon(key).files
        assert "broker-nyc-4" in kept.daemon(key).after


def test_it_grows_twice_and_then_another_change_brings_all_addresses() -> None:
    first = with_kept_services(deployed(jfk=(*THREE, 4)), running(deployed()))
    second = with_kept_services(deployed(jfk=(*THREE, 4, 5)), running(first))
    assert second.daemon("mirror-nyc").files == deployed().daemon("mirror-nyc").files
    edited = deployed(jfk=(*THREE, 4, 5), topics="u")
    third = with_kept_services(edited, running(second))
    assert third.daemon("mirror-nyc") == edited.daemon("mirror-nyc")
    assert third.daemon("aggregator-nyc").files == deployed().daemon("aggregator-nyc").files


def test_an_address_that_leaves_reloads_the_link_or_restarts_the_services() -> None:
    for after in (deployed(jfk=THREE), deployed(jfk=(*THREE, 5))):
        found = steps(after, running(deployed(jfk=(*THREE, 4))))
        assert {key: found[key] for key in SERVICES} == dict.fromkeys(SERVICES, "reload")
    found = steps(deployed(nyc=THREE), running(deployed(nyc=(*THREE, 4))))
    assert {key: found[key] for key in SERVICES} == dict.fromkeys(SERVICES, "restart")


def test_a_service_of_another_version_restarts_with_all_addresses() -> None:
    older = {
        key: replace(each, version="0.0.1") if key in SERVICES else each
        for key, each in running(deployed()).items()
    }
    after = deployed(jfk=(*THREE, 4))
    kept = with_kept_services(after, older)
    assert all(kept.daemon(key) == after.daemon(key) for key in SERVICES)


def test_a_service_that_does_not_run_starts_with_all_addresses() -> None:
    after = deployed(jfk=(*THREE, 4))
    assert with_kept_services(after, {}) == after
