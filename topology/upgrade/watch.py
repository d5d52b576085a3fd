"""The supervisor's part of an upgrade: it starts the turn of its host when it has come.

A thread reads the plan in ZooKeeper every few seconds, with one session as long as the supervisor
lives. It decides nothing else, so a supervisor of the version before takes its part in an upgrade:
the turn itself runs the installed version (turn.py). Everything is imported before the package may
be replaced.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from local_cluster.controller.model.znode_paths import UPGRADE_PLAN, UPGRADE_TURN
from topology.deployment.deployment import Deployment, python_command, read_deployment
from topology.deployment.state_dir import StateDir
from topology.deployment.zookeeper_access import ZooKeeperAccess
from topology.operate.zookeeper_client import new_client
from topology.problems import DeployError
from topology.supervisor.own_process import child_environment
from topology.upgrade.plan_znode import plan_place
from topology.upgrade.upgrade_plan import NotAPlan, UpgradePlan, decode_plan

POLL_S: Final = 2.0
SESSION_TIMEOUT_S: Final = 10.0
RESPONSE_TIMEOUT_S: Final = 5.0
AGAIN_S: Final = 10.0
"""Seconds between two turns, if the first one did not change that it is this host's turn."""

log = logging.getLogger(__name__)


def start_watch(state: StateDir) -> None:
    """Watch the plan of an upgrade in a thread, which ends with this process."""
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    threading.Thread(target=Watch(state).run, name="upgrade watch", daemon=True).start()


class Watch:
    """Reads the plan, and starts turns."""

    def __init__(self, state: StateDir) -> None:
        self._state = state
        self._place: ZooKeeperAccess | None = None
        self._client: KazooClient | None = None
        self._turn: subprocess.Popen[bytes] | None = None
        self._next_turn_s = 0.0
        self._complaint = ""

    def run(self) -> None:
        while True:
            try:
                self._look()
            except (DeployError, KazooException, KazooTimeoutError, NotAPlan, OSError) as error:
                self._complain(error)
            time.sleep(POLL_S)

    def _look(self) -> None:
        deployment = read_deployment(self._state)
        if not any(each.brokers for each in deployment.clusters):
            return
        client = self._connected(plan_place(deployment))
        if client is None:
            return
        plan = _read(client)
        own = frozenset(each.host for each in deployment.daemons)
        if plan is None or not plan.is_turn_of(own) or _is_taken(client):
            return
        if self._turn is not None and self._turn.poll() is None:
            return
        if time.monotonic() >= self._next_turn_s:
            self._next_turn_s = time.monotonic() + AGAIN_S
            self._start(plan, deployment)

    def _connected(self, place: ZooKeeperAccess) -> KazooClient | None:
        """Return the client; None while it is not connected. Raises DeployError."""
        if place != self._place:
            if self._client is not None:
                self._client.stop()
                self._client.close()
                self._client = None
            self._client = new_client(place, place.connect, timeout_s=SESSION_TIMEOUT_S)
            self._place = place
            self._client.start_async()
        assert self._client is not None
        return self._client if self._client.connected else None

    def _start(self, plan: UpgradePlan, deployment: Deployment) -> None:
        log.info("upgrade of %s to %s: the turn of this host", deployment.name, plan.wanted)
        with open(self._state.log_file("upgrade"), "ab") as log_file:
            self._turn = subprocess.Popen(
                python_command("topology.upgrade.turn", "--state-dir", str(self._state.path)),
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                cwd=self._state.path,
                env=child_environment(os.environ),
                start_new_session=True,
            )

    def _complain(self, error: Exception) -> None:
        """Log an error, once until another one comes."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            log.warning("the plan of an upgrade cannot be read: %s", error)


def _read(client: KazooClient) -> UpgradePlan | None:
    try:
        content, _ = client.get_async(UPGRADE_PLAN).get(timeout=RESPONSE_TIMEOUT_S)
    except NoNodeError:
        return None
    return decode_plan(content)


def _is_taken(client: KazooClient) -> bool:
    return client.exists_async(UPGRADE_TURN).get(timeout=RESPONSE_TIMEOUT_S) is not None
