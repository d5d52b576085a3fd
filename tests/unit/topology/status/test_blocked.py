"""What waits for other hosts, and what the status says about it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.unit.topology.deployment.test_parts_of_hosts import all_of_it
from tests.unit.topology.status.test_document import report, row
from topology.deployment.deployment import Daemon, Deployment, Part
from topology.deployment.parts_of_hosts import part_here
from topology.status.blocked import (
    NOT_STARTED,
    UNREACHABLE,
    Peer,
    blocked_clusters,
    blocked_daemons,
)
from topology.status.document import JsonObject, assemble_status
from topology.status.peers import check_peers

ANSWERING = Peer("answers")
ABSENT = Peer(NOT_STARTED, "nothing listens")


def on(host: str) -> Deployment:
    return part_here(all_of_it(), Part(host=host), lambda _: False)


def peers(deployment: Deployment, *answering: str, silent: Peer = ABSENT) -> dict[str, Peer]:
    return {
        each.key: ANSWERING if each.key in answering else silent for each in deployment.elsewhere
    }


def test_a_node_without_a_majority_blocks_all_that_needs_it() -> None:
    third = on("10.0.0.3")
    blocked = blocked_daemons(third, peers(third))
    assert set(blocked) == {each.key for each in third.daemons}
    assert "ZooKeeper main, node 1 on 10.0.0.1: not started yet" in blocked["zookeeper-main.3"]


def test_two_of_three_nodes_are_enough() -> None:
    third = on("10.0.0.3")
    assert not blocked_daemons(third, peers(third, "zookeeper-main.1"))


def test_a_new_ensemble_needs_node_1() -> None:
    third = on("10.0.0.3")
    without_first = peers(third, "zookeeper-main.2")
    assert not blocked_daemons(third, without_first)
    blocked = blocked_daemons(third, without_first, {"zookeeper-main.3"})
    assert set(blocked) == {each.key for each in third.daemons}
    assert "ZooKeeper main, node 1 on 10.0.0.1: not started yet" in blocked["zookeeper-main.3"]
    assert not blocked_daemons(third, peers(third, "zookeeper-main.1"), {"zookeeper-main.3"})


def test_a_cluster_needs_one_broker() -> None:
    third = on("10.0.0.3")
    known = peers(third, "zookeeper-main.1", "zookeeper-main.2")
    assert set(blocked_clusters(third, known, {})) == {"ewr"}
    assert not blocked_clusters(third, {**known, "broker-ewr-2": ANSWERING}, {})


def rows_of(deployment: Deployment, phase: str) -> list[dict[str, object]]:
    return [row(each.key, each.role, phase) for each in deployment.daemons]


@pytest.mark.parametrize("silent", [ABSENT, Peer(UNREACHABLE, "no route")])
def test_the_status_waits_for_other_hosts(silent: Peer) -> None:
    first = on("10.0.0.1")
    status = assemble_status(
        first, report(*rows_of(first, "starting")), {}, peers=peers(first, silent=silent)
    )
    assert status["state"] == "waiting"
    assert {each["state"] for each in status["elsewhere"]} == {silent.state}
    assert {each["state"] for each in status["links"]} == {"elsewhere"}
    assert all("waits for" in each["reason"] for each in status["problems"])
    brokers = {each["id"]: each["state"] for each in status["clusters"][0]["brokers"]}
    assert brokers == {1: "starting", 2: silent.state}


ONE_OF_THREE = """\
name: flights
zookeepers:
  - {name: main, port: 2181, hosts: [10.0.0.1, 10.0.0.2, 10.0.0.3], allow_insecure: true}
clusters:
  - name: nyc
    zookeeper: {embedded: main, chroot: /nyc}
    brokers:
      - {id: 1, host: 10.0.0.1, port: 9092}
      - {id: 2, host: 10.0.0.2, port: 9092}
      - {id: 3, host: 10.0.0.3, port: 9092}
    mirror: {hosts: [10.0.0.3]}
  - {name: kafka, external: "10.0.0.9:9092"}
links:
  - {source: kafka, target: nyc, topics: [".*"]}
"""


def test_a_worker_that_starts_may_wait_for_more_than_one_broker() -> None:
    """The topic of its group has replicas, so one broker of three cannot create it."""
    third = part_here(all_of_it(ONE_OF_THREE), Part(host="10.0.0.3"), lambda _: False)
    worker = "mirror-nyc.10.0.0.3"
    known = peers(third, "zookeeper-main.1", "zookeeper-main.2", "broker-nyc-1")
    assert not blocked_daemons(third, known)
    others = [row(each.key, each.role) for each in third.daemons if each.key != worker]

    def status(phase: str, **more: object) -> JsonObject:
        rows = [*others, row(worker, "mirror", phase, **more)]
        return assemble_status(third, report(*rows), {}, peers=known)

    starting = status("starting")
    assert starting["state"] == "waiting"
    (problem, _) = starting["problems"]
    assert problem["reason"] == "it waits for broker 2 of nyc on 10.0.0.2: not started yet"
    assert starting["links"][0]["waits_for"] == f"its worker: {problem['reason']}"
    assert status("restarting", restarts=2)["state"] == "degraded", "a trouble of its own"
    everyone = {each.key: ANSWERING for each in third.elsewhere}
    rows = [*others, row(worker, "mirror", "starting")]
    assert assemble_status(third, report(*rows), {}, peers=everyone)["state"] == "starting"


def test_a_crash_of_its_own_is_no_waiting() -> None:
    first = on("10.0.0.1")
    rows = rows_of(first, "running")
    rows[1] = row("broker-ewr-1", "broker", "restarting", restarts=2)
    known = peers(first, "zookeeper-main.2")
    assert assemble_status(first, report(*rows), {}, peers=known)["state"] == "degraded"


def test_one_host_is_well_while_another_is_down() -> None:
    first = on("10.0.0.1")
    status = assemble_status(
        first, report(*rows_of(first, "running")), {}, peers=peers(first, "zookeeper-main.2")
    )
    assert (status["state"], status["problems"]) == ("running", [])


@pytest.fixture
def listening() -> Iterator[tuple[str, int]]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()


def test_not_started_differs_from_unreachable(listening: tuple[str, int]) -> None:
    daemon = Daemon(key="a", role="broker", label="a", argv=())
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: the system refuses connections
        found = check_peers(
            (
                replace(daemon, key="a", address=listening),
                replace(daemon, key="b", address=closed.getsockname()),
                replace(daemon, key="c", address=("host.invalid", 1)),
                replace(daemon, key="d"),
            )
        )
    states = {key: each.state for key, each in found.items()}
    assert states == {"a": "answers", "b": "not_started", "c": "unreachable", "d": "unknown"}
