"""The plan of an upgrade, and the levels of formats, in ZooKeeper.

The plan is in the ZooKeeper of the deployment's first own cluster, the level in that of each.
Guarantees: the plan changes only from the content that was read before. A level never falls.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from local_cluster.controller.model.format_level import (
    FIRST_LEVEL,
    FORMAT_LEVEL,
    decode_level,
    encode_level,
    level_problem,
)
from local_cluster.controller.model.znode_json import UnreadableZnodeError
from local_cluster.controller.model.znode_paths import FORMAT_LEVEL as LEVEL_PATH
from local_cluster.controller.model.znode_paths import UPGRADE_PLAN, UPGRADE_TURN
from local_cluster.controller.zk.kazoo_security import acl_of_new
from topology.deployment.deployment import Deployment
from topology.deployment.zookeeper_access import ZooKeeperAccess, access_of_broker
from topology.operate.zookeeper_client import answers, connected
from topology.problems import DeployError
from topology.upgrade.upgrade_plan import Change, NotAPlan, UpgradePlan, decode_plan, encode_plan

RESPONSE_TIMEOUT_S: Final = 5.0
CONNECTIONS_MAX: Final = 32
"""ZooKeepers that are read at the same time."""
WRITES_MAX: Final = 20
"""Times that a change is tried because another host wrote in between."""

logging.getLogger("kazoo").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """The plan, and who has the turn now."""

    plan: UpgradePlan | None
    turn: str | None
    """Host that works now; None if none does."""


def places_of(deployment: Deployment) -> dict[str, ZooKeeperAccess]:
    """Return where each own cluster has its znodes, in the order of the file."""
    return {
        cluster.name: access_of_broker(deployment.daemon(cluster.brokers[0].daemon).files)
        for cluster in deployment.clusters
        if cluster.brokers
    }


def plan_place(deployment: Deployment) -> ZooKeeperAccess:
    """Return where the plan is. Raises DeployError."""
    places = list(places_of(deployment).values())
    if not places:
        raise DeployError(
            "the deployment has no cluster of its own, so no ZooKeeper for the plan of an upgrade",
            ["install the package and run `heliograph up` on each host"],
        )
    return places[0]


def read_plan(place: ZooKeeperAccess) -> StoredPlan:
    """Return the stored plan. Raises DeployError."""
    with connected(place, place.connect, timeout_s=RESPONSE_TIMEOUT_S) as client:
        plan, _ = _read(client)
        return StoredPlan(plan=plan, turn=_turn(client))


def change_plan(place: ZooKeeperAccess, change: Change) -> UpgradePlan:
    """Change the stored plan; return the new one. Raises DeployError or NotNow.

    After a DeployError it is unknown whether the change was written.
    """
    acl = acl_of_new(UPGRADE_PLAN, sets_acl=place.sets_acl)
    with connected(place, place.connect, timeout_s=RESPONSE_TIMEOUT_S) as client:
        for _ in range(WRITES_MAX):
            before, version = _read(client)
            after = change(before)
            if after == before:
                return after
            try:
                if version is None:
                    client.create(UPGRADE_PLAN, encode_plan(after), acl, makepath=True)
                else:
                    client.set(UPGRADE_PLAN, encode_plan(after), version=version)
            except (BadVersionError, NodeExistsError, NoNodeError):
                continue
            return after
    raise DeployError(f"other hosts write {UPGRADE_PLAN} all the time")


def read_levels(places: Mapping[str, ZooKeeperAccess]) -> dict[str, int | None]:
    """Return the level of each cluster, None where ZooKeeper does not say it.

    All are asked at the same time, so that those which wait for other hosts cost one timeout.
    """
    with ThreadPoolExecutor(CONNECTIONS_MAX) as pool:
        reading = {name: pool.submit(_level_or_none, place) for name, place in places.items()}
        return {name: each.result() for name, each in reading.items()}


def check_levels(deployment: Deployment) -> None:
    """Check that this version reads the formats of every cluster whose ZooKeeper answers.

    Raises DeployError. Brokers check it again when they start.
    """
    levels = read_levels(places_of(deployment))
    problems = {
        name: problem
        for name, level in levels.items()
        if level is not None and (problem := level_problem(level)) is not None
    }
    if problems:
        lines = [f"{name}: {problem}" for name, problem in problems.items()]
        raise DeployError("this version is too old for the data; nothing was changed", lines)


def raise_level(place: ZooKeeperAccess) -> int:
    """Raise a cluster's level to that of this version; return the level. Raises DeployError."""
    acl = acl_of_new(LEVEL_PATH, sets_acl=place.sets_acl)
    with connected(place, place.connect, timeout_s=RESPONSE_TIMEOUT_S) as client:
        for _ in range(WRITES_MAX):
            level, version = _read_level(client)
            if version is not None and level >= FORMAT_LEVEL:
                return level
            try:
                if version is None:
                    client.create(LEVEL_PATH, encode_level(FORMAT_LEVEL), acl, makepath=True)
                else:
                    client.set(LEVEL_PATH, encode_level(FORMAT_LEVEL), version=version)
            except (BadVersionError, NodeExistsError, NoNodeError):
                continue
            return FORMAT_LEVEL
    raise DeployError(f"others write {LEVEL_PATH} all the time")


def _level_or_none(place: ZooKeeperAccess) -> int | None:
    if not answers(place):
        return None
    try:
        return _level(place)
    except DeployError:
        return None


def _level(place: ZooKeeperAccess) -> int:
    with connected(place, place.connect, timeout_s=RESPONSE_TIMEOUT_S) as client:
        return _read_level(client)[0]


def _read_level(client: KazooClient) -> tuple[int, int | None]:
    """Return the level, and the version of its znode, None without one."""
    try:
        content, stat = client.get(LEVEL_PATH)
    except NoNodeError:
        return FIRST_LEVEL, None
    try:
        return decode_level(content), stat.version
    except UnreadableZnodeError as error:
        raise DeployError(f"{LEVEL_PATH}: {error}; a newer version may have written it") from error


def _read(client: KazooClient) -> tuple[UpgradePlan | None, int | None]:
    try:
        content, stat = client.get(UPGRADE_PLAN)
    except NoNodeError:
        return None, None
    try:
        return decode_plan(content), stat.version
    except NotAPlan as error:
        raise DeployError(
            f"{UPGRADE_PLAN}: {error}; a newer version may have written it"
        ) from error


def _turn(client: KazooClient) -> str | None:
    try:
        return str(client.get(UPGRADE_TURN)[0].decode(errors="replace"))
    except NoNodeError:
        return None
