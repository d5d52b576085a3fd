"""The processes of a placed deployment as containers: command, files, secrets. Pure.

A container runs as the user of the image (Containerfile). Its settings are read-only files in one
directory. It writes below the state directory, and in the absolute `log_dirs` of a broker.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from topology.deployment.deployment import Daemon, Deployment, encode_deployment
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.deployment.zookeeper import LOGGING_FILE, files_of_config
from topology.model import Topology
from topology.problems import DeployError
from topology.rendering.placed import Place
from topology.rendering.processes import CONFIGURATION, MODULES, STATE, log_dirs_of, named_secrets

PYTHON: Final = "/opt/heliograph/bin/python"
"""Interpreter of the image."""
SETTINGS: Final = f"{STATE}/settings"
DATA: Final = f"{STATE}/data"
"""The image has this directory, which belongs to USER_ID."""
USER_ID: Final = 10_001
"""User and group of the image."""
NUMBER: Final = "{number}"
RIGHTS: Final = "rights"
"""Role of the job that applies the users, ACLs and quotas of a cluster, and ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One process in a container."""

    place: Place
    label: str
    settings: Mapping[str, str]
    """Name of each file in the settings directory, and its text; the command names the first."""
    arguments: tuple[str, ...]
    """The module, and its arguments before the path of the first settings file. NUMBER stands for
    the number of the place."""
    data: tuple[str, ...] = ()
    """Directories that outlive the container: DATA, and the absolute `log_dirs` of a broker."""
    files: tuple[str, ...] = ()
    """Absolute paths of the certificates and secrets that it reads."""
    variables: tuple[str, ...] = ()
    """Environment variables with secrets that it reads."""
    after: tuple[str, ...] = ()
    """Names of the containers that start before it."""
    http_scheme: str = "http"
    """Scheme of its health and metrics."""

    @property
    def name(self) -> str:
        return self.place.name

    def command(self, settings_file: str, number: str) -> list[str]:
        """Return the command with the path of the first settings file and the place's number."""
        arguments = (number if each == NUMBER else each for each in self.arguments)
        return [PYTHON, "-P", "-m", *arguments, settings_file]


def rendered(topology: Topology) -> Deployment:
    """Return the deployment of a placed topology with the paths of containers."""
    return render(
        topology, StateDir(Path(STATE)), topology_file=Path(CONFIGURATION, "topology.yaml")
    )


def containers_of(deployment: Deployment) -> list[Container]:
    """Return every container of a placed deployment. Raises DeployError for equal names."""
    numbered = list(_numbered(deployment.daemons))
    names = {daemon.key: place.name for daemon, place in numbered}
    found = [
        *(_container(daemon, place, names) for daemon, place in numbered),
        *_rights_jobs(deployment, names),
    ]
    seen: dict[str, str] = {}
    for each in found:
        if each.name in seen:
            raise DeployError(
                f"{seen[each.name]} and {each.label} would both be called {each.name}"
            )
        seen[each.name] = each.label
    return found


def _numbered(daemons: Sequence[Daemon]) -> Iterator[tuple[Daemon, Place]]:
    """Yield each daemon with its place, which its key tells: no cluster's name has a dot."""
    workers: dict[str, int] = {}
    for daemon in daemons:
        name = daemon.key.removeprefix(f"{daemon.role}-")
        number = 1
        if daemon.role == "broker":
            name, _, digits = name.rpartition("-")
            number = int(digits)
        elif daemon.role == "zookeeper":
            name, _, digits = name.partition(".")
            number = int(digits or 1)
        elif daemon.role == "mirror":
            name = name.partition(".")[0]
            number = workers[name] = workers.get(name, 0) + 1
        yield daemon, Place(daemon.role, name, number, daemon.datacenter or "")


def _container(daemon: Daemon, place: Place, names: Mapping[str, str]) -> Container:
    data = [DATA] if daemon.role in ("zookeeper", "broker") else []
    after = tuple(names[key] for key in daemon.after)
    if daemon.role == "zookeeper":
        texts = {PurePosixPath(path).name: text for path, text in daemon.files.items()}
        texts.pop("myid", None)  # `--myid` writes it
        logging = texts.pop(LOGGING_FILE)
        (config,) = texts.values()
        return Container(
            place=place,
            label=daemon.label,
            settings={f"{place.name}.cfg": config, LOGGING_FILE: logging},
            arguments=("topology.zookeeper_server", "--myid", NUMBER, "--config"),
            data=tuple(data),
            files=files_of_config(config),
            after=after,
        )
    (text,) = daemon.files.values()
    # A broker uses CLUSTER/broker-ID below each entry of `log_dirs`.
    places = {str(PurePosixPath(each).parents[1]) for each in log_dirs_of(daemon)}
    settings = json.loads(text)
    files, variables = named_secrets(settings)
    return Container(
        place=place,
        label=daemon.label,
        settings={f"{place.name}.json": text},
        arguments=(MODULES[daemon.role], "--settings"),
        data=(*data, *sorted(places - set(data))),
        files=files,
        variables=variables,
        after=after,
        http_scheme="http" if settings["http_security"]["tls"] is None else "https",
    )


def _rights_jobs(deployment: Deployment, names: Mapping[str, str]) -> Iterator[Container]:
    """Yield a job for each cluster that declares users, ACLs or quotas."""
    for cluster in deployment.clusters:
        if not cluster.declares_rights:
            continue
        place = Place(RIGHTS, cluster.name, 1, cluster.datacenter)
        only = replace(deployment, daemons=(), links=(), clusters=(cluster,))
        text = encode_deployment(only)
        files, variables = named_secrets(json.loads(text))
        yield Container(
            place=place,
            label=f"users, ACLs and quotas of {cluster.name}",
            settings={f"{place.name}.json": text},
            arguments=("topology.rights_job", "--deployment"),
            files=files,
            variables=variables,
            after=tuple(names[each.daemon] for each in cluster.brokers),
        )
