"""`up` compares a move between listeners with what brokers of other hosts have registered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient

from local_cluster.controller.member.registration import registration_payload
from local_cluster.controller.model.znode_paths import broker_id_path
from local_cluster.settings import load_settings
from tests.support.quiet_ports import quiet_port
from tests.support.running_chapter import HOSTS, on_hosts, texts
from topology.deployment.deployment import Deployment, Part
from topology.deployment.parts_of_hosts import part_here
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.operate.broker_moves import check_moves
from topology.problems import DeployError

pytestmark = pytest.mark.real

BROKERS: Final = {1: "broker-jfk-1", 2: "broker-jfk-2", 3: "broker-jfk-3"}


class Cluster:
    """The znodes of the chapter's cluster, and what one of its hosts would run."""

    def __init__(self, directory: Path, connect: str, client: KazooClient) -> None:
        self._directory, self._client = directory, client
        self._phases = [
            re.sub(r"(?m)^zookeepers: .*\n", "", on_hosts(text)).replace(
                "  - name: jfk\n", f"  - name: jfk\n    zookeeper: {connect}\n"
            )
            for text in (
                each.partition("  - name: nyc\n")[0] for each in texts(range(20_000, 20_008))
            )
        ]

    def at(self, phase: int, host: str = HOSTS[0]) -> Deployment:
        state = StateDir(self._directory / "state")
        whole = render(parse_topology(self._phases[phase]), state, topology_file=Path("/conf/t"))
        return part_here(whole, Part(host=host), lambda _: False)

    def register(self, phase: int, *ids: int) -> None:
        """Have brokers registered as they are in a phase."""
        for broker_id in ids:
            (text,) = self.at(phase, HOSTS[broker_id - 1]).daemon(BROKERS[broker_id]).files.values()
            file = self._directory / "settings.json"
            file.write_text(text)
            payload = registration_payload(load_settings(file), {}, 1)
            path = broker_id_path(broker_id)
            self._client.ensure_path(path)
            self._client.set(path, payload)

    def problems(self, before: int | None, after: int) -> tuple[str, ...]:
        """Return why `up` of the first host refuses a phase; `before` None if nothing runs."""
        running = {} if before is None else {each.key: each for each in self.at(before).daemons}
        try:
            check_moves(running, self.at(after))
        except DeployError as error:
            return error.details or (str(error),)
        return ()


@pytest.fixture
def cluster(chroot: str, tmp_path: Path) -> Iterator[Cluster]:
    client = KazooClient(chroot)
    client.start()
    client.ensure_path("/")
    yield Cluster(tmp_path, chroot, client)
    client.stop()
    client.close()


def test_the_trust_ends_when_every_host_has_moved(cluster: Cluster) -> None:
    cluster.register(1, 1, 2, 3)
    assert cluster.problems(1, 2) == ()
    cluster.register(2, 1, 2)
    (problem,) = cluster.problems(2, 3)
    assert problem.startswith("jfk: broker 3 uses listener PLAINTEXT between brokers: set `former")
    cluster.register(2, 3)
    assert cluster.problems(2, 3) == ()
    cluster.register(3, 2, 3)
    assert cluster.problems(2, 3) == ()
    (problem,) = cluster.problems(2, 1)
    assert problem.startswith("jfk: broker 2, 3 does not accept brokers on listener PLAINTEXT yet")


def test_what_nobody_knows_is_refused(cluster: Cluster) -> None:
    cluster.register(2, 1, 2)
    (problem,) = cluster.problems(2, 3)
    assert problem.startswith("jfk: broker 3 is not registered, so nobody knows what it uses")


def test_a_deployment_starts_whatever_its_phase(cluster: Cluster) -> None:
    assert cluster.problems(None, 7) == ()
    cluster.register(2, 2, 3)
    assert cluster.problems(None, 3) == ()
    assert cluster.problems(None, 1) == ()
    cluster.register(3, 2, 3)
    assert "broker 2, 3 does not accept brokers" in cluster.problems(None, 1)[0]


def test_without_zookeeper_a_deployment_starts_and_no_phase_begins(tmp_path: Path) -> None:
    client = KazooClient()
    unreachable = Cluster(tmp_path, f"127.0.0.1:{quiet_port()}/jfk", client)
    assert unreachable.problems(None, 7) == ()
    assert unreachable.problems(3, 3) == (), "nothing changes"
    (problem,) = unreachable.problems(2, 3)
    assert "does not answer" in problem
