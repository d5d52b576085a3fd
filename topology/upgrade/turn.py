"""Entry point of a host's turn: `python -m topology.upgrade.turn --state-dir DIR`.

The supervisor starts it (watch.py), so it runs the installed version whichever version the
supervisor runs. It takes the turn, restarts the processes of this host and writes how it went into
the plan. It outlives the supervisor, which it replaces. If it is killed, its turn ends with its
session, and the supervisor starts it again.
"""

from __future__ import annotations

import argparse
import logging
import time
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from local_cluster.controller.model.znode_paths import UPGRADE_TURN
from topology.deployment.deployment import Deployment, read_deployment
from topology.deployment.state_dir import StateDir
from topology.deployment.zookeeper_access import ZooKeeperAccess
from topology.operate.restart_turn import SharedTurn
from topology.problems import DeployError
from topology.supervisor.control_client import (
    SupervisorRefused,
    SupervisorUnreachable,
    supervisor_status,
)
from topology.upgrade.host_upgrade import HostUpgrade, wanted_deployment
from topology.upgrade.plan_znode import change_plan, check_levels, plan_place, read_plan
from topology.upgrade.upgrade_plan import Change, NotNow, UpgradePlan, end, fail, give_back, take

TAKE_TIMEOUT_S: Final = 15.0
"""Seconds to get the turn, from the start of a session on."""
CHECK_S: Final = 1.0
"""Seconds for which the result of a check counts."""
WRITE_TIMEOUT_S: Final = 60.0
"""Seconds for which the result of a turn is written again and again."""
POLL_S: Final = 0.25
REASON_LINES_MAX: Final = 12

log = logging.getLogger("topology.upgrade")


class TurnEnded(Exception):
    """The turn is over before the work is; the message says why."""


@dataclass(slots=True, kw_only=True)
class Guard:
    """Knows whether the turn goes on."""

    place: ZooKeeperAccess
    turn: SharedTurn
    number: int
    own: frozenset[str]
    state: StateDir
    timeout_s: float
    _until_s: float = 0.0

    def check(self) -> None:
        """Return if nothing may stop the next restart. Raises TurnEnded or DeployError.

        Waits while ZooKeeper does not answer, at most `timeout_s`.
        """
        if time.monotonic() < self._until_s:
            return
        deadline_s = time.monotonic() + self.timeout_s
        while (doubt := self._doubt()) is not None:
            if time.monotonic() > deadline_s:
                raise DeployError(f"the turn of this host is in doubt: {doubt}")
            time.sleep(POLL_S)
        self._check_supervisor()
        self._until_s = time.monotonic() + CHECK_S

    def _doubt(self) -> str | None:
        if (reason := self.turn.take()) is not None:
            return reason
        try:
            plan = read_plan(self.place).plan
        except DeployError as error:
            return str(error)
        if plan is None or plan.number != self.number:
            raise TurnEnded("the plan was replaced")
        if plan.is_stopped:
            raise TurnEnded("an operator has stopped the upgrade")
        if not any(each.name in self.own and each.state == "in_turn" for each in plan.hosts):
            raise TurnEnded("another process has ended the turn of this host")
        return None

    def _check_supervisor(self) -> None:
        try:
            if supervisor_status(self.state.socket_path)["stopping"]:
                raise DeployError("`heliograph down` stops the deployment here")
        except (SupervisorUnreachable, SupervisorRefused):
            return  # it was lost, or is being replaced


def hosts_here(deployment: Deployment) -> frozenset[str]:
    """Return the hosts that this state directory runs: one, or those of a datacenter."""
    return frozenset(each.host for each in deployment.daemons)


def take_turn(state: StateDir) -> None:
    """Take the turn of this host if it has come. Raises DeployError if it cannot be known."""
    stored = read_deployment(state)
    place, own = plan_place(stored), hosts_here(stored)
    with closing(SharedTurn(place, ", ".join(sorted(own)), path=UPGRADE_TURN)) as turn:
        if not _is_ours(turn):
            return
        plan = read_plan(place).plan
        if plan is None or not plan.is_turn_of(own):
            return
        installed = version("heliograph")
        if installed != plan.wanted:
            reason = f"version {installed} is installed here, not {plan.wanted}: install it"
            _write(place, give_back(own, plan.number, reason))
            return
        plan = change_plan(place, take(own))
        log.info("it is the turn of this host: version %s", plan.wanted)
        _work(state, stored, place, turn, plan)


def _work(
    state: StateDir,
    stored: Deployment,
    place: ZooKeeperAccess,
    turn: SharedTurn,
    plan: UpgradePlan,
) -> None:
    own = hosts_here(stored)
    guard = Guard(
        place=place,
        turn=turn,
        number=plan.number,
        own=own,
        state=state,
        timeout_s=plan.timeout_s,
    )
    try:
        check_levels(stored)
        wanted = wanted_deployment(state)
        HostUpgrade(
            deployment=wanted, state=state, timeout_s=plan.timeout_s, check=guard.check
        ).run()
    except TurnEnded as error:
        log.warning("the turn ended: %s", error)
        _write(place, give_back(own, plan.number, str(error)))
    except DeployError as error:
        reason = "\n".join([str(error), *error.details[:REASON_LINES_MAX]])
        log.error("stopped on trouble: %s", reason)
        _write(place, fail(own, plan.number, reason))
    else:
        log.info("done: version %s", plan.wanted)
        _write(place, end(own, plan.number))


def _is_ours(turn: SharedTurn) -> bool:
    deadline_s = time.monotonic() + TAKE_TIMEOUT_S
    while (reason := turn.take()) is not None:
        if turn.is_taken or time.monotonic() > deadline_s:
            log.info("not now: %s", reason)
            return False
        time.sleep(POLL_S)
    return True


def _write(place: ZooKeeperAccess, change: Change) -> None:
    """Change the plan, also if ZooKeeper does not answer at first. Raises DeployError."""
    deadline_s = time.monotonic() + WRITE_TIMEOUT_S
    while True:
        try:
            change_plan(place, change)
        except NotNow as error:
            log.info("not written: %s", error)
        except DeployError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(POLL_S)
            continue
        return


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m topology.upgrade.turn")
    parser.add_argument("--state-dir", type=Path, required=True)
    state = StateDir(parser.parse_args().state_dir)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    try:
        take_turn(state)
    except (DeployError, NotNow) as error:
        log.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
