"""`heliograph zookeeper ...`: ACLs of the znodes of our own clusters.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from topology.cli.command_line import (
    Output,
    OutputOption,
    StateDirOption,
    Which,
    complain,
    fail,
    find_deployment,
    print_json,
)

if TYPE_CHECKING:
    from topology.deployment.state_dir import StateDir
    from topology.deployment.zookeeper_access import ZooKeeperAccess
    from topology.operate.znode_acls import Counts

zookeeper_app = typer.Typer(
    no_args_is_help=True, help="ACLs of znodes: status, secure, unsecure (zookeeper.set.acl)."
)
ClusterOption = Annotated[
    list[str] | None,
    typer.Option("--cluster", "-c", help="Only this cluster; repeatable.", show_default=False),
]
PROGRESS_ZNODES: Final = 5_000
"""Znodes between two lines about the progress."""


@zookeeper_app.command("status")
def zookeeper_status(
    deployment: Which = None,
    cluster: ClusterOption = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Count the znodes of each cluster by their ACLs."""

    def ask(_: str, accesses: list[ZooKeeperAccess]) -> Counts:
        from topology.operate.znode_acls import count_acls

        return count_acls(accesses[0])

    _for_each(deployment, cluster, output, state_dir, ask)


@zookeeper_app.command("secure")
def secure_znodes(
    deployment: Which = None,
    cluster: ClusterOption = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Give the znodes that exist Kafka's ACLs: only the brokers' user may change them.

    All brokers must run with `set_acl` first. If the command was killed, run it again.
    """
    _for_each(deployment, cluster, output, state_dir, lambda *of: _migrate(*of, secure=True))


@zookeeper_app.command("unsecure")
def unsecure_znodes(
    deployment: Which = None,
    cluster: ClusterOption = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Open all znodes again, before brokers lose their user or change its password.

    All brokers must run without `set_acl` first. If the command was killed, run it again.
    """
    _for_each(deployment, cluster, output, state_dir, lambda *of: _migrate(*of, secure=False))


def _migrate(name: str, accesses: list[ZooKeeperAccess], *, secure: bool) -> Counts:
    """Migrate one cluster. Raises DeployError, also if a broker is not in the right phase."""
    from topology.operate.znode_acls import migrate_acls
    from topology.problems import DeployError

    said = 0

    def say(counts: Counts) -> None:
        nonlocal said
        if counts.total - said >= PROGRESS_ZNODES:
            said = counts.total
            complain([f"{name}: {counts.total} znodes visited, {counts.changed} changed"])

    if not all(each.security.user == accesses[0].security.user for each in accesses):
        raise DeployError(
            f"brokers of {name} have different users in ZooKeeper; nothing was changed",
            ["`heliograph up` restarts the others"],
        )
    if not accesses[0].security.authenticates:
        raise DeployError(
            f"brokers of {name} have no user in ZooKeeper; nothing was changed",
            ["add `zookeeper_security` to the cluster, then run `heliograph up`"],
        )
    if any(each.sets_acl != secure for each in accesses):
        wanted = "`set_acl: true` in" if secure else "no `set_acl: true` in"
        raise DeployError(
            f"not every broker of {name} is in the right phase; nothing was changed",
            [f"it needs {wanted} its `zookeeper_security`, applied by `heliograph up`"],
        )
    return migrate_acls(accesses[0], secure=secure, on_progress=say)


def _for_each(
    deployment: str | None,
    wanted: list[str] | None,
    output: Output,
    state_dir: Any,
    work: Callable[[str, list[ZooKeeperAccess]], Counts],
) -> None:
    """Do the work for each cluster, and show the counts. Ends the command with 1 on an error."""
    from topology.problems import DeployError, unknown_name

    found: dict[str, dict[str, int]] = {}
    try:
        clusters = _accesses(find_deployment(deployment, state_dir))
        for name in wanted or ():
            if name not in clusters:
                raise DeployError(unknown_name("cluster of our own", name, clusters))
        for name in wanted or clusters:
            found[name] = asdict(work(name, clusters[name]))
            if output is Output.human:
                typer.echo(_sentence(name, found[name]))
    except DeployError as error:
        fail(str(error), error.details)
    if output is Output.json:
        print_json({"clusters": found})


def _accesses(state: StateDir) -> dict[str, list[ZooKeeperAccess]]:
    """Return how each broker uses ZooKeeper, by cluster: those of this host as they run."""
    from topology.deployment.deployment import read_deployment
    from topology.deployment.zookeeper_access import access_of_broker
    from topology.supervisor.process_journal import live_processes

    deployment = read_deployment(state)
    live = {key: each.daemon for key, each in live_processes(state).items()}
    return {
        each.name: [
            access_of_broker((live.get(broker.daemon) or deployment.daemon(broker.daemon)).files)
            for broker in each.brokers
        ]
        for each in deployment.clusters
        if each.brokers
    }


def _sentence(name: str, counts: dict[str, int]) -> str:
    total = counts["open"] + counts["secured"] + counts["other"]
    changed = f"; {counts['changed']} changed" if counts["changed"] else ""
    other = f", {counts['other']} with other ACLs" if counts["other"] else ""
    return (
        f"{name}: {total} znodes: {counts['secured']} with Kafka's ACLs,"
        f" {counts['open']} open{other}{changed}"
    )
