"""`heliograph backup` and `heliograph restore`: what clusters keep in ZooKeeper.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topology.cli.command_line import (
    EXIT_USAGE,
    DatacenterOption,
    HostOption,
    Output,
    OutputOption,
    StateDirOption,
    TopologyFile,
    Which,
    fail,
    find_deployment,
    print_json,
    render_file,
)

if TYPE_CHECKING:
    from topology.deployment.deployment import Daemon, Deployment
    from topology.deployment.state_dir import StateDir
    from topology.deployment.zookeeper_access import ZooKeeperAccess

ClusterOption = Annotated[
    list[str] | None,
    typer.Option("--cluster", help="Only this cluster; repeatable.", show_default=False),
]


def backup(
    deployment: Which = None,
    to: Annotated[
        Path, typer.Option("--to", metavar="FILE", help="File to write; it must not exist.")
    ] = Path("heliograph-backup.json"),
    cluster: ClusterOption = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Write what clusters keep in ZooKeeper to a file: topics, configs, users, ACLs.

    The file holds SCRAM credentials, so only its owner can read it (mode 0600). Records are not in
    it.
    """
    from datetime import UTC, datetime

    from topology.backup.document import backup_document, topics_of
    from topology.backup.znodes import read_znodes
    from topology.deployment.deployment import read_deployment
    from topology.problems import DeployError

    try:
        running = read_deployment(find_deployment(deployment, state_dir))
        places = _places(running, cluster)
        znodes = {name: read_znodes(place) for name, place in places.items()}
    except DeployError as error:
        fail(str(error), error.details)
    taken_at = datetime.now(UTC).isoformat(timespec="seconds")
    _write(to, backup_document(running.name, taken_at, znodes))
    counts = {
        name: {"znodes": len(found), "topics": len(topics_of(found))}
        for name, found in znodes.items()
    }
    if output is Output.json:
        print_json({"file": str(to), "clusters": counts})
        return
    for name, each in counts.items():
        typer.echo(f"{name}: {each['znodes']} znodes, {each['topics']} topics")
    typer.echo(f"{to} holds credentials; only its owner can read it (mode 0600)")


def restore(
    backup_file: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="File of `heliograph backup`.")
    ],
    file: TopologyFile,
    cluster: ClusterOption = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
    host: HostOption = None,
    datacenter: DatacenterOption = None,
) -> None:
    """Write a backup into the empty ZooKeeper of a deployment whose brokers do not run.

    Starts the embedded ZooKeeper servers of this host, and nothing else. `heliograph up` starts the
    rest. A chroot that is not empty is refused.
    """
    from topology.backup.document import NotABackup, read_document, restored, topics_of
    from topology.backup.znodes import write_znodes
    from topology.problems import DeployError, unknown_name
    from topology.supervisor.process_journal import live_processes

    try:
        found = read_document(backup_file.read_bytes())
    except OSError as error:
        fail(f"cannot read {backup_file}: {error.strerror}", code=EXIT_USAGE)
    except NotABackup as error:
        fail(f"{backup_file}: {error}", code=EXIT_USAGE)
    wanted, state = render_file(file, state_dir, host, datacenter)
    try:
        running = [each.daemon.label for each in live_processes(state).values()]
        if running:
            raise DeployError(
                f"{', '.join(running)} runs; nothing was written", ["`heliograph down` first"]
            )
        places = _places(wanted, cluster or list(found))
        missing = [name for name in places if name not in found]
        if missing:
            raise DeployError(unknown_name("cluster of the backup", missing[0], found))
        _start_zookeepers(wanted, state)
        for name, place in places.items():
            write_znodes(place, restored(found[name]))
    except DeployError as error:
        fail(str(error), error.details)
    counts = {
        name: {"znodes": len(found[name]), "topics": len(topics_of(found[name]))} for name in places
    }
    if output is Output.json:
        print_json({"clusters": counts})
        return
    for name, each in counts.items():
        typer.echo(f"{name}: restored {each['znodes']} znodes, {each['topics']} topics")
    typer.echo(f"`heliograph up {file}` starts the brokers")


def _places(deployment: Deployment, wanted: list[str] | None) -> dict[str, ZooKeeperAccess]:
    """Return how to use the ZooKeeper of each of our own clusters. Raises DeployError."""
    from topology.deployment.zookeeper_access import access_of_broker
    from topology.problems import DeployError, unknown_name

    places: dict[str, ZooKeeperAccess] = {}
    for each in deployment.clusters:
        if each.brokers:
            places[each.name] = access_of_broker(deployment.daemon(each.brokers[0].daemon).files)
    for name in wanted or ():
        if name not in places:
            raise DeployError(unknown_name("cluster of our own", name, places))
    return {name: place for name, place in places.items() if not wanted or name in wanted}


def _start_zookeepers(deployment: Deployment, state: StateDir) -> None:
    """Start the embedded ZooKeeper servers of this host alone. Raises DeployError."""
    from dataclasses import replace

    from topology.operate.up import up

    def of_zookeeper(daemons: tuple[Daemon, ...]) -> tuple[Daemon, ...]:
        return tuple(each for each in daemons if each.role == "zookeeper")

    here = of_zookeeper(deployment.daemons)
    if here:
        elsewhere = of_zookeeper(deployment.elsewhere)
        up(replace(deployment, daemons=here, elsewhere=elsewhere, clusters=(), links=()), state)


def _write(file: Path, document: Mapping[str, Any]) -> None:
    """Write the file with mode 0600; end the command if it exists."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        fail(f"{file} exists; nothing was written", code=EXIT_USAGE)
    except OSError as error:
        fail(f"cannot write {file}: {error.strerror}")
    try:
        with open(descriptor, "w") as opened:
            json.dump(document, opened, indent=1, ensure_ascii=False)
            opened.write("\n")
            opened.flush()
            os.fsync(opened.fileno())
    except OSError as error:
        file.unlink(missing_ok=True)
        fail(f"cannot write {file}: {error.strerror}")
