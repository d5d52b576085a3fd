"""`heliograph mirror run`: runs the mirror workers of a topology in this process.

It is for hosts without a deployment. Any number of hosts may run the same file, each with its own
worker id, and they share the work.
"""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mirror_maker.settings import MirrorSettings, parse_settings
from mirror_maker.worker.service import MirrorService
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.model import Topology
from topology.problems import unknown_name

WORKER_ID_PATTERN = r"[a-zA-Z0-9._-]{1,63}"
"""The id becomes a part of a group instance id, which must be a valid topic name in Kafka."""


def worker_settings(
    topology: Topology,
    *,
    topology_file: Path,
    directory: Path,
    worker_id: str | None = None,
    targets: Sequence[str] = (),
) -> list[MirrorSettings]:
    """Return the settings of one worker per target; `targets` may restrict them.

    The ready files go to `directory`. Raises ValueError for a target without links, or for an
    invalid worker id.
    """
    deployment = render(topology, StateDir(directory), topology_file=topology_file)
    found = {
        settings.target_alias: settings
        for daemon in deployment.daemons
        if daemon.role == "mirror"
        for settings in map(parse_settings, daemon.files.values())
    }
    for target in targets:
        if target not in found:
            raise ValueError(unknown_name("link into", target, found))
    here = worker_id or re.sub(r"[^a-zA-Z0-9._-]", "-", socket.gethostname())
    if not re.fullmatch(WORKER_ID_PATTERN, here):
        raise ValueError(f"a worker id is letters, digits, ., _ and -, at most 63, not {here!r}")
    return [
        replace(
            settings,
            worker_id=f"{topology.name}-{alias}-{here}",
            ready_file=str(directory / f"mirror-{alias}.json"),
        )
        for alias, settings in found.items()
        if not targets or alias in targets
    ]


def run_workers(workers: Sequence[MirrorSettings]) -> None:
    """Run until SIGTERM or SIGINT, then stop cleanly.

    Raises an ExceptionGroup with GroupFencedError, or with OSError if a port is in use.
    """
    asyncio.run(_run(workers))


async def _run(workers: Sequence[MirrorSettings]) -> None:
    services = [MirrorService(settings) for settings in workers]
    loop = asyncio.get_running_loop()

    def stop() -> None:
        for service in services:
            service.stop()

    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop)
    async with asyncio.TaskGroup() as group:
        for service in services:
            group.create_task(service.run())
