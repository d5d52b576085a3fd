"""A `heliograph up` that is killed in the middle of a rolling restart."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys

from tests.support.heliograph_command import HeliographCommand
from tests.support.replicas import eventually
from topology.deployment.state_dir import StateDir


async def kill_up_after_the_first_broker(
    command: HeliographCommand, ended: re.Pattern[str]
) -> None:
    """Run `up`, kill it when one broker has ended, and wait until all daemons run.

    `ended` finds the line of the supervisor's log about a broker that has ended.
    """
    log = StateDir(command.state_dir).log_file("supervisor")
    seen = len(ended.findall(log.read_text()))
    argv = [sys.executable, "-m", "topology", "up", str(command.file), *command.options]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        await eventually(lambda: len(ended.findall(log.read_text())) > seen)
        first.kill()
    assert len(ended.findall(log.read_text())) == seen + 1

    async def all_run() -> bool:
        found = await asyncio.to_thread(command.document, "status")
        return all(each["state"] == "running" for each in found["daemons"])

    await eventually(all_run)
