"""The processes of a deployment with commands that any host can run. Pure.

A rendered daemon names the interpreter, the Java and the jars of the host that rendered it. Here
the interpreter is a given one, and ZooKeeper is started by `topology.zookeeper_server`, which looks
for Java and jars where it runs.
"""

from __future__ import annotations

import json
from typing import Any, Final

from topology.deployment.deployment import Daemon, Deployment

STATE: Final = "/var/lib/heliograph"
"""Directory for all state: of every deployment of a host, or of the one process of a container."""
CONFIGURATION: Final = "/etc/heliograph"
"""Directory for certificates and secrets."""
STOP_S: Final = 60
"""Longer than a broker needs to hand its partitions over."""
OPEN_FILES_MAX: Final = 100_000
MODULES: Final = {"broker": "local_cluster", "mirror": "mirror_maker", "aggregator": "aggregator"}


def command_of(daemon: Daemon, python: str) -> tuple[str, ...]:
    """Return the command of a daemon with the interpreter `python`."""
    if daemon.role == "zookeeper":
        (config,) = (path for path in daemon.files if path.endswith(".cfg"))
        return (python, "-P", "-m", "topology.zookeeper_server", "--config", config)
    (settings,) = daemon.files
    return (python, "-P", "-m", MODULES[daemon.role], "--settings", settings)


def log_dirs_of(daemon: Daemon) -> tuple[str, ...]:
    """Return the log directories of a broker; none for other daemons."""
    if daemon.role != "broker":
        return ()
    (settings,) = daemon.files.values()
    return tuple(str(each) for each in json.loads(settings)["log_dirs"])


def secret_variables(deployment: Deployment) -> list[str]:
    """Return the environment variables that hold secrets, sorted."""
    return sorted({each.env for each in deployment.all_secrets if each.env is not None})


def secret_files(deployment: Deployment) -> list[str]:
    """Return the files that hold secrets or private keys, sorted."""
    found = {each.file for each in deployment.all_secrets if each.file is not None}
    return sorted({*found, *deployment.all_key_files})


def named_secrets(document: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files and the environment variables that settings name, each sorted."""
    files: set[str] = set()
    variables: set[str] = set()
    rest = [document]
    while rest:
        value = rest.pop()
        if isinstance(value, list):
            rest += value
        elif isinstance(value, dict):
            for key, each in value.items():
                if not isinstance(each, str):
                    rest.append(each)
                elif key == "env":
                    variables.add(each)
                elif (key == "file" or key.endswith("_file")) and key not in _NOT_READ:
                    files.add(each)
    return tuple(sorted(files)), tuple(sorted(variables))


_NOT_READ: Final = frozenset({"ready_file", "topology_file"})
