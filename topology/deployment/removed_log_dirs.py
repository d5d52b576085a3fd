"""Log directories that an edited topology takes away from a broker, and what lies there.

A broker makes anew, and empty, what it finds in none of its directories; where it was the last one
in sync that is a loss. So `up` does not take a directory away that holds replicas.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from local_cluster.log.partition.partition_directory import parse_log_name
from topology.deployment.deployment import Daemon, Deployment


class LeftLogDir(NamedTuple):
    """A directory that a broker had and is to have no more."""

    broker: str
    """The label of what runs it: broker 1 of ewr."""
    path: str


def left_log_dirs(before: Deployment, after: Deployment) -> list[LeftLogDir]:
    """Of brokers that are in both. Pure."""
    kept = {each.key: _log_dirs(each) for each in after.daemons if each.role == "broker"}
    return [
        LeftLogDir(each.label, path)
        for each in before.daemons
        if each.role == "broker" and each.key in kept
        for path in _log_dirs(each)
        if path not in kept[each.key]
    ]


def count_replicas(path: str) -> int:
    """How many lie in a log directory; none where it cannot be read, as on a disk that is gone."""
    try:
        return sum(parse_log_name(each.name) is not None for each in Path(path).iterdir())
    except OSError:
        return 0


def problems_of(left: list[LeftLogDir], count: Callable[[str], int] = count_replicas) -> list[str]:
    """Why not all of them may be taken away; nothing where all of them may."""
    held = [(each, count(each.path)) for each in left]
    return [
        f"{path} of {broker} holds {replicas} replicas"
        for (broker, path), replicas in held
        if replicas
    ]


def _log_dirs(daemon: Daemon) -> list[str]:
    """As the settings file of a broker says; none where it is another version's."""
    (settings,) = daemon.files.values()
    return [str(path) for path in json.loads(settings).get("log_dirs", ())]
