"""Whether a started daemon is ready for work."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local_cluster.http_security.addresses import url_of
from topology.deployment.deployment import Daemon

ZOOKEEPER_REPLY_TIMEOUT_S = 1.0
READY_FILE_BYTES_MAX = 1 << 20


async def is_ready(daemon: Daemon, pid: int) -> bool:
    """Return whether the daemon that runs as this process is ready."""
    if daemon.ready_zookeeper is not None:
        return await zookeeper_serves(*daemon.ready_zookeeper)
    if daemon.ready_file is not None:
        report = read_ready_file(Path(daemon.ready_file), pid)
        return report is not None and report.get("state") == "running"
    return True


def read_ready_file(path: Path, pid: int) -> dict[str, Any] | None:
    """Return the ready file of the process with this pid, or None if it has not written one."""
    try:
        with open(path, "rb") as file:
            report = json.loads(file.read(READY_FILE_BYTES_MAX))
    except (OSError, ValueError):
        return None
    if not isinstance(report, dict) or report.get("pid") != pid:
        return None  # an earlier process wrote it
    return report


def has_reloaded(daemon: Daemon, pid: int) -> bool:
    """Return whether the process with this pid runs with the settings of this daemon."""
    if daemon.ready_file is None:
        return False
    report = read_ready_file(Path(daemon.ready_file), pid) or {}
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in daemon.files.values()]
    return [report.get("settings")] == digests


def http_url(ready: Mapping[str, Any] | None) -> str | None:
    """Return the URL of a daemon on this host from its ready file; None if it serves no HTTP."""
    if not isinstance(ready, Mapping) or not ready.get("http_port"):
        return None
    host = str(ready.get("http_host") or "127.0.0.1")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return url_of(str(ready.get("http_scheme") or "http"), host, int(ready["http_port"]))


async def zookeeper_serves(host: str, port: int) -> bool:
    """Return whether the ZooKeeper server at this address serves clients (command `srvr`)."""
    try:
        async with asyncio.timeout(ZOOKEEPER_REPLY_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"srvr")
                reply = await reader.read(64)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
    return reply.startswith(b"Zookeeper version")
