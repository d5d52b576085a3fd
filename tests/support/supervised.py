"""A supervisor without processes, behind its HTTP port for other hosts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from topology.deployment.deployment import Deployment
from topology.deployment.state_dir import StateDir
from topology.supervisor.host_server import SHOWN

NO_STATE: Final = StateDir(Path("/nonexistent"))


class Supervised:
    """One daemon runs as pid 7 on the first host of the deployment; orders to stop are counted."""

    def __init__(self, deployment: Deployment, state: StateDir = NO_STATE) -> None:
        self.state = state
        self.deployment: Deployment | None = deployment
        self.applied = asyncio.Event()
        self.port_problem: str | None = None
        self.stops = 0
        self._host = deployment.daemons[0].host

    def apply(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.applied.set()

    def report(self) -> dict[str, Any]:
        row = dict.fromkeys(SHOWN)
        row |= {"key": "b", "label": "broker", "host": self._host, "phase": "running", "pid": 7}
        row |= {"role": "broker", "restarts": 3}
        rows = [{**row, "ready": {"hidden": "what other hosts do not need"}}]
        shown = {"pid": 1, "version": "1", "started_at_ms": 2, "stopping": False}
        return {**shown, "daemons": rows}

    def stop(self) -> None:
        self.stops += 1
