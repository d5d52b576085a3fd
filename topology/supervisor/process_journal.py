"""The processes that were started, on disk, for a later supervisor and for `down` without one.

Guarantees: a process is recorded before it does anything. A file that cannot be read is an error,
never an empty list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from topology.deployment.deployment import Daemon, decode_daemon
from topology.deployment.state_dir import StateDir, write_atomically
from topology.problems import DeployError
from topology.supervisor.own_process import Identity, find_process

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class StartedProcess:
    """A process and the daemon that it was started as."""

    identity: Identity
    daemon: Daemon


def write_processes(path: Path, processes: Mapping[str, StartedProcess]) -> None:
    """Replace the journal by these processes, by daemon key. Raises OSError."""
    document = {
        "version": FORMAT_VERSION,
        "processes": {
            key: {"identity": asdict(each.identity), "daemon": asdict(each.daemon)}
            for key, each in processes.items()
        },
    }
    write_atomically(path, json.dumps(document))


def read_processes(path: Path) -> dict[str, StartedProcess]:
    """Return the recorded processes, running or not; empty if none was ever recorded.

    Raises OSError, or ValueError for a file that this module did not write.
    """
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    try:
        if document["version"] != FORMAT_VERSION:
            raise ValueError(f"{path}: version {document['version']}, not {FORMAT_VERSION}")
        return {
            key: StartedProcess(Identity(**each["identity"]), decode_daemon(each["daemon"]))
            for key, each in document["processes"].items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: not a record of processes: {error!r}") from error


def live_processes(state: StateDir) -> dict[str, StartedProcess]:
    """Return the recorded processes that still run, by daemon key. Raises DeployError."""
    try:
        records = read_processes(state.processes_file)
    except (OSError, ValueError) as error:
        raise DeployError(f"cannot tell what runs: {error}") from error
    return {key: each for key, each in records.items() if find_process(each.identity)}
