"""SHELL: checks before `up` restarts brokers that none of them, on any host, is locked out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from local_cluster.controller.member.registered_access import RegisteredAccess, decode_access
from local_cluster.controller.model.znode_json import UnreadableZnodeError
from local_cluster.controller.model.znode_paths import BROKER_IDS, broker_id_path
from topology.deployment.deployment import Daemon, Deployment
from topology.deployment.inter_broker_moves import Move, move_problems, moves_of
from topology.deployment.zookeeper_access import ZooKeeperAccess, access_of_broker
from topology.operate.zookeeper_client import answers, connected
from topology.problems import DeployError

CONNECT_TIMEOUT_S: Final = 15.0


def check_moves(running: Mapping[str, Daemon], deployment: Deployment) -> None:
    """Check that brokers reach and accept each other in every moment of the rolling restarts.

    `running` holds the daemons that run here, by key. Brokers of other hosts are those that are
    registered in ZooKeeper. Raises DeployError.
    """
    problems = [
        problem
        for move in moves_of(running, deployment)
        for problem in move_problems(move, _elsewhere(move, running, deployment))
    ]
    if problems:
        raise DeployError("a move of listeners would skip a phase; nothing was changed", problems)


def _elsewhere(
    move: Move, running: Mapping[str, Daemon], deployment: Deployment
) -> dict[int, RegisteredAccess | None]:
    """Return the registered brokers, if other hosts have any. Raises DeployError."""
    if not move.elsewhere:
        return {}
    own = [each.daemon for each in move.cluster.brokers if each.id not in move.elsewhere]
    # Brokers that run know a ZooKeeper that answers; the next settings may name another port.
    known = [running[key] for key in own if key in running]
    place = access_of_broker((known or [deployment.daemon(own[0])])[0].files)
    if not move.running and not answers(place):
        return {}  # the deployment starts
    return registered_brokers(place)


def registered_brokers(place: ZooKeeperAccess) -> dict[int, RegisteredAccess | None]:
    """Return the registered brokers of a cluster; None for one whose version does not say it.

    Raises DeployError.
    """
    with connected(place, place.connect, timeout_s=CONNECT_TIMEOUT_S) as client:
        try:
            names = client.get_children(BROKER_IDS)
        except NoNodeError:
            return {}
        found = {}
        for name in names:
            payload = _registration(client, int(name))
            if payload is not None:
                found[int(name)] = _access(payload)
        return found


def _registration(client: KazooClient, broker_id: int) -> bytes | None:
    try:
        return bytes(client.get(broker_id_path(broker_id))[0])
    except NoNodeError:
        return None  # it has just stopped


def _access(payload: bytes) -> RegisteredAccess | None:
    try:
        return decode_access(payload)
    except UnreadableZnodeError:
        return None
