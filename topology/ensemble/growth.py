"""Carries out the growth of ensembles with a node on this host, step by step (growth_step.py).

A step is made at a node of this host, by a user whose password only that node knows
(node_files.py). So the password stays on this host.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final

from topology.deployment.deployment import Daemon, Deployment
from topology.deployment.state_dir import StateDir
from topology.deployment.zookeeper_access import ZooKeeperAccess
from topology.ensemble.growth_step import Done, Reconfigure, Refuse, Wait, decide
from topology.ensemble.members import Membership, decode_membership
from topology.ensemble.node_files import USER, read_secret
from topology.ensemble.nodes import (
    Ensemble,
    Growth,
    Unfinished,
    ensembles_of,
    moved_numbers,
)
from topology.model.scalars import LOOPBACK_NAMES
from topology.problems import DeployError
from topology.supervisor.readiness import ZOOKEEPER_REPLY_TIMEOUT_S, zookeeper_serves

CONFIG_PATH: Final = "/zookeeper/config"
RESPONSE_TIMEOUT_S: Final = 10.0
SESSION_TIMEOUT_S: Final = 10.0
PAUSE_S: Final = 0.5
"""Seconds between two looks at an ensemble."""


class EnsembleGrowth:
    """The ensembles of a deployment on their way to the members of the file."""

    def __init__(self, deployment: Deployment, state: StateDir) -> None:
        self._state = state
        self._here = {each.key for each in deployment.daemons}
        self._open = [
            each
            for each in ensembles_of(deployment).values()
            if len(each.nodes) > 1
            and all(node.member for node in each.nodes)  # else an older version started them
            and any(node.key in self._here for node in each.nodes)
        ]
        self._unfinished: list[Unfinished] = []
        self._looked_at_s = float("-inf")

    def advance(self) -> list[Unfinished]:
        """Make the next step of each ensemble; return those that are not finished.

        Raises DeployError if nothing leads to the members of the file.
        """
        if self._open and time.monotonic() - self._looked_at_s >= PAUSE_S:
            found = [(each, self._advance(each)) for each in self._open]
            self._open = [each for each, unfinished in found if unfinished is not None]
            self._unfinished = [unfinished for _, unfinished in found if unfinished is not None]
            self._looked_at_s = time.monotonic()
        return self._unfinished

    def look(self) -> list[Unfinished]:
        """Return the ensembles that say they are not finished, and change nothing.

        If none of its nodes here serves clients, nothing is known of an ensemble.
        """
        found = []
        for each in self._open:
            try:
                unfinished = self._advance(each, changes=False)
            except DeployError as error:
                unfinished = Unfinished(each.name, f"ZooKeeper {each.name}", (str(error),))
            if unfinished is not None:
                found.append(unfinished)
        return found

    def _advance(self, ensemble: Ensemble, *, changes: bool = True) -> Unfinished | None:
        serving = asyncio.run(_serving(ensemble.nodes, self._here))
        own = next((n for n in ensemble.nodes if n.key in self._here and n.key in serving), None)
        now: Membership | None = None
        try:
            now = None if own is None else read_members(own)
            numbers = {
                number for number, node in enumerate(ensemble.nodes, 1) if node.key in serving
            }
            step = decide(ensemble.members, now, numbers)
            if isinstance(step, Reconfigure) and changes:
                assert own is not None
                self._reconfigure(own, step)
        except DeployError as error:
            return Unfinished(ensemble.name, _sentence(ensemble, now), (str(error),))
        if isinstance(step, Done) or (now is None and not changes):
            return None
        sentence = _sentence(ensemble, now)
        if isinstance(step, Refuse):
            raise DeployError(f"ZooKeeper {ensemble.name}: {step.reason}")
        if isinstance(step, Reconfigure):
            return Unfinished(ensemble.name, sentence, ())
        silent = [ensemble.nodes[number - 1] for number in step.nodes] or [
            node for node in ensemble.nodes if node.key not in serving
        ]
        return Unfinished(
            ensemble.name,
            sentence,
            tuple(f"{_label(node, self._here)} does not serve clients yet" for node in silent),
            all(node.key not in self._here for node in silent) and isinstance(step, Wait),
        )

    def _reconfigure(self, node: Daemon, step: Reconfigure) -> None:
        """Make the members of a step those of the ensemble. Raises DeployError.

        The change may have been made after an error too; the next look finds out.
        """
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError

        from topology.operate.zookeeper_client import connected

        address = _address(node)
        try:
            secret = read_secret(self._state.data_dir / node.key)
        except OSError as error:
            raise DeployError(f"cannot read the password of {node.label}: {error}") from error
        members = ",".join(step.members.text().split())
        with connected(
            ZooKeeperAccess(connect=address), address, timeout_s=SESSION_TIMEOUT_S
        ) as client:
            try:
                client.add_auth("digest", f"{USER}:{secret}")
                client.reconfig_async(None, None, members, step.from_version).get(
                    timeout=RESPONSE_TIMEOUT_S
                )
            except (KazooException, KazooTimeoutError) as error:
                raise DeployError(f"{node.label} did not change the members: {error!r}") from error


def first_start_problems(deployment: Deployment) -> list[str]:
    """Return what keeps a host from starting its first node, one line each.

    Nodes that other hosts run already must have the numbers that the file gives them.
    """
    here = {each.key for each in deployment.daemons}
    problems: list[str] = []
    for each in ensembles_of(deployment).values():
        if len(each.nodes) == 1 or not any(node.key in here for node in each.nodes):
            continue
        serving = asyncio.run(_serving(each.nodes, here))
        for node in each.nodes:
            assert node.ready_zookeeper is not None
            if node.key not in serving or node.ready_zookeeper[0] in LOOPBACK_NAMES:
                continue
            try:
                members = read_members(node).members
            except DeployError:
                continue  # a hint at most: it served a moment ago
            problems += moved_numbers(each, members)
    return list(dict.fromkeys(problems))


def all_listen(nodes: Iterable[Daemon]) -> bool:
    """Return whether all of these nodes accept connections of clients."""
    addresses = [each.ready_zookeeper for each in nodes if each.ready_zookeeper is not None]

    async def ask() -> list[bool]:
        return await asyncio.gather(*(_accepts(*address) for address in addresses))

    return all(asyncio.run(ask()))


def silent_members(growth: Growth, here: set[str]) -> list[str]:
    """Return the nodes of an ensemble that is to grow which do not serve clients."""
    serving = asyncio.run(_serving(growth.before.nodes, here))
    return [_label(each, here) for each in growth.before.nodes if each.key not in serving]


def read_members(node: Daemon) -> Membership:
    """Return the members that an ensemble has, as one of its nodes says. Raises DeployError."""
    from topology.operate.zookeeper_client import connected

    address = _address(node)
    access = ZooKeeperAccess(connect=address)
    with connected(access, address, timeout_s=SESSION_TIMEOUT_S) as client:
        text, _ = client.get_async(CONFIG_PATH).get(timeout=RESPONSE_TIMEOUT_S)
    try:
        return decode_membership(text.decode())
    except ValueError as error:
        raise DeployError(f"{node.label}: {error}") from error


async def _serving(nodes: Iterable[Daemon], here: set[str]) -> set[str]:
    """Return the keys of the nodes that serve clients."""
    listed = list(nodes)
    answers = await asyncio.gather(*(_serves(each, here) for each in listed))
    return {each.key for each, yes in zip(listed, answers, strict=True) if yes}


async def _serves(node: Daemon, here: set[str]) -> bool:
    assert node.ready_zookeeper is not None
    host, port = node.ready_zookeeper
    if node.key in here or host not in LOOPBACK_NAMES:
        return await zookeeper_serves(host, port)
    # The plain port of another host is closed. ZooKeeper itself makes no step without a majority.
    assert node.address is not None
    return await _accepts(*node.address)


async def _accepts(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(ZOOKEEPER_REPLY_TIMEOUT_S):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
    except (OSError, TimeoutError):
        return False
    return True


def _sentence(ensemble: Ensemble, now: Membership | None) -> str:
    count = len(ensemble.nodes)
    if now is None:
        return f"ZooKeeper {ensemble.name}, {count} nodes"
    if len(now.members) == count:
        return f"ZooKeeper {ensemble.name} of {count} nodes begins"
    return f"ZooKeeper {ensemble.name} grows from {len(now.members)} to {count} nodes"


def _label(node: Daemon, here: set[str]) -> str:
    return node.label if node.key in here else f"{node.label} on {node.host}"


def _address(node: Daemon) -> str:
    assert node.ready_zookeeper is not None
    host, port = node.ready_zookeeper
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
