"""Looks at this host before `up` starts anything on it. Shell."""

from __future__ import annotations

import json
import resource
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from topology.deployment.deployment import Daemon, Deployment
from topology.deployment.plan import Step
from topology.deployment.removals import log_dirs_of
from topology.deployment.zookeeper import files_of_config
from topology.hosts.answers import Answer
from topology.hosts.fitness import HostFacts, room_problems
from topology.problems import DeployError
from topology.rendering.processes import named_secrets


def free_bytes_of(directory: Path) -> int:
    """Return the free bytes of the file system of a directory. Raises OSError."""
    return shutil.disk_usage(directory).free


def host_facts(
    deployment: Deployment,
    steps: Iterable[Step],
    answers: Mapping[str, Answer],
    free_bytes: Callable[[Path], int] = free_bytes_of,
) -> HostFacts:
    """Return the facts that matter for the steps of `up`. `answers` are those of other hosts."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    starting = {step.key for step in steps if step.action == "start"}
    clocks = {host: each.clock_ahead_ms for host, each in answers.items()}
    return HostFacts(
        open_files_max=None if limit == resource.RLIM_INFINITY else limit,
        free_bytes=dict(_free(_directories(deployment, starting), free_bytes)),
        clocks_ahead_ms={host: ahead for host, ahead in clocks.items() if ahead is not None},
    )


def missing_secrets(
    deployment: Deployment, steps: Iterable[Step], environment: Mapping[str, str]
) -> list[str]:
    """Return a line for each secret that a step needs and this host lacks. None is read."""
    starting = {step.key: step.label for step in steps if step.action != "stop"}
    found: dict[str, str] = {}
    for daemon in deployment.daemons:
        if daemon.key not in starting:
            continue
        files, variables = _secrets_of(daemon)
        found |= {f"{file} is missing": daemon.label for file in files if not Path(file).exists()}
        found |= {
            f"the environment variable {name} is not set": daemon.label
            for name in variables
            if name not in environment
        }
    return [f"{what}: {label} reads it" for what, label in found.items()]


def _secrets_of(daemon: Daemon) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files and the environment variables that a daemon reads secrets from."""
    if daemon.role == "zookeeper":
        configs = (text for path, text in daemon.files.items() if path.endswith(".cfg"))
        return tuple(file for text in configs for file in files_of_config(text)), ()
    (settings,) = daemon.files.values()
    return named_secrets(json.loads(settings))


def check_room(facts: HostFacts) -> None:
    """Check that what starts has room for its data. Raises DeployError."""
    problems = room_problems(facts)
    if problems:
        raise DeployError("a disk of this host is full; nothing was started", problems)


def _directories(deployment: Deployment, keys: set[str]) -> Iterator[Path]:
    """Yield the directories of daemons, or the nearest ones above that exist already."""
    for daemon in deployment.daemons:
        if daemon.key not in keys:
            continue
        data = log_dirs_of(daemon) if daemon.role == "broker" else daemon.directories
        for path in map(Path, data):
            yield next((each for each in (path, *path.parents) if each.exists()), path)


def _free(
    directories: Iterable[Path], free_bytes: Callable[[Path], int]
) -> Iterator[tuple[str, int]]:
    for directory in dict.fromkeys(directories):
        try:
            yield str(directory), free_bytes(directory)
        except OSError:
            continue  # the daemon's own error names it
