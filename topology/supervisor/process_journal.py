"""What was started, on disk: so that a later supervisor, or `down` without one, knows its own.

Guarantees: a record is on disk before anything else is done about its process; a file that
cannot be read is an error, never an empty list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from topology.deployment.deployment import Daemon, decode_daemon
from topology.deployment.state_dir import write_atomically
from topology.supervisor.own_process import Identity

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class StartedProcess:
    """A process and the daemon it was started as."""

    identity: Identity
    daemon: Daemon


def write_processes(path: Path, processes: Mapping[str, StartedProcess]) -> None:
    """Replace the record by these processes, by daemon key. Raises OSError."""
    document = {
        "version": FORMAT_VERSION,
        "processes": {
            key: {"identity": asdict(each.identity), "daemon": asdict(each.daemon)}
            for key, each in processes.items()
        },
    }
    write_atomically(path, json.dumps(document))


def read_processes(path: Path) -> dict[str, StartedProcess]:
    """The recorded processes, running or not; none if nothing was ever recorded.
    Raises ValueError for a file this module did not write, or OSError."""
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
