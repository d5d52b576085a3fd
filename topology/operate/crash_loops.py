"""Daemons that exit again and again while a command waits for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from topology.problems import DeployError
from topology.supervisor.bounded_logs import last_lines

EXITS_MAX = 3
"""Exits of one daemon, since the command first looked at it, after which the command gives up."""
LOG_LINES = 15
"""Lines of a failed daemon's log that are shown."""


class CrashLoops:
    """Counts the exits of each daemon since the command started; earlier exits do not count."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def check(self, daemons: Iterable[Mapping[str, Any]]) -> None:
        """Check rows of the status document. Raises DeployError for a daemon that keeps exiting."""
        for daemon in daemons:
            restarts = daemon["restarts"] or 0  # unknown without a supervisor
            exits = restarts - self._before.setdefault(daemon["key"], restarts)
            if exits >= EXITS_MAX and daemon["state"] != "running":
                raise DeployError(
                    f"{daemon['label']} keeps ending (exit code {daemon['exit_code']})",
                    log_tail(Path(daemon["log"])),
                )


def log_tail(log: Path) -> list[str]:
    """Return the last lines of a log, as details of an error."""
    return [f"the end of {log}:", *(f"  {line}" for line in last_lines(log, LOG_LINES))]
