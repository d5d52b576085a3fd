"""The plan of `up`, and the checks that it makes before it changes anything."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Mapping

from topology.deployment.deployment import Daemon, Deployment, read_deployment
from topology.deployment.plan import Running, Step, plan, with_kept_services
from topology.deployment.protocol_changes import (
    authorizer_problems,
    changed_zookeeper_users,
    port_problems,
    protocol_problems,
    zookeeper_problems,
)
from topology.deployment.removals import (
    RemovedBroker,
    add_warnings,
    broker_problems,
    log_dir_problems,
    removed_brokers,
    removed_log_dirs,
    with_former_rights,
)
from topology.deployment.rights_difference import PlannedRights
from topology.deployment.state_dir import StateDir
from topology.deployment.zookeeper import ZooKeeperUnavailable, find_jars, find_java
from topology.ensemble.nodes import add_growth, ensemble_problems, growths, with_kept_nodes
from topology.hosts.fitness import HostFacts
from topology.hosts.own_host import check_room
from topology.problems import DeployError
from topology.supervisor.process_journal import StartedProcess, live_processes


def plan_steps(deployment: Deployment, state: StateDir) -> list[Step]:
    """Return the steps of `up`, with warnings for brokers that hold replicas.

    Raises DeployError.
    """
    live, before = live_processes(state), deployed_before(state)
    _check_nodes(deployment, before)
    steps = steps_from(live, as_it_runs(deployment, live))
    steps = add_growth(steps, growths(before, deployment))
    return add_warnings(steps, _replicas_of_removed(deployment, state))


def deployed_before(state: StateDir) -> Deployment | None:
    """Return what was deployed, if anything was. Raises DeployError."""
    return read_deployment(state) if state.exists() else None


def as_it_runs(deployment: Deployment, live: Mapping[str, StartedProcess]) -> Deployment:
    """Return the deployment without differences that need no restart."""
    running = {key: each.daemon for key, each in live.items()}
    return with_kept_services(with_kept_nodes(deployment, running), running)


def plan_refusals(
    deployment: Deployment, state: StateDir, steps: list[Step], facts: HostFacts
) -> list[DeployError]:
    """Return why `up` would change nothing.

    Not here: brokers that leave and hold replicas, which are reasons of their steps.
    """
    from topology.upgrade.plan_znode import check_levels

    live = live_processes(state)
    checks: tuple[Callable[[], None], ...] = (
        lambda: check_owner(deployment, state),
        lambda: check_levels(deployment),
        lambda: _check_log_dirs(deployment, state),
        lambda: check_protocols(deployment, live),
        lambda: check_ensembles(deployment, deployed_before(state)),
        lambda: check_installed(deployment),
        lambda: check_ports(deployment, steps, live),
        lambda: check_supervisor_port(deployment, state),
        lambda: check_room(facts),
    )
    found = []
    for check in checks:
        try:
            check()
        except DeployError as error:
            found.append(error)
    return found


def plan_rights(deployment: Deployment, state: StateDir) -> list[PlannedRights]:
    """Return the changes of users, ACLs and quotas of every cluster that has any to compare.

    Raises DeployError.
    """
    deployment = with_former_rights(deployment, deployed_before(state))
    if all(each.rights is None for each in deployment.clusters):
        return []
    from topology.operate.cluster_rights import planned_rights
    from topology.operate.rights_rollout import clusters_here

    live = live_processes(state)
    before = {each.name: each for each in read_deployment(state).clusters} if live else {}
    return [
        planned_rights(
            each,
            before.get(each.name, each),
            is_running=any(broker.daemon in live for broker in each.brokers),
        )
        for each in clusters_here(deployment)
    ]


def login_notes(deployment: Deployment) -> list[str]:
    """Return what commands cannot do, because their libraries have no GSSAPI here."""
    notes = []
    for each in deployment.clusters:
        if each.security.uses_tickets:
            notes.append(
                f"{each.name}: `heliograph produce` and `consume` (aiokafka) cannot log in by"
                " GSSAPI, as its `security` says; name another login by --bootstrap and --security"
            )
        if each.kind == "aggregate" and (each.spark_security or each.security).uses_tickets:
            notes.append(
                f"{each.name}: `heliograph spark serve` (librdkafka) cannot log in by GSSAPI; give"
                " `principals.spark` another mechanism to serve tables"
            )
    return notes


def steps_from(live: Mapping[str, StartedProcess], deployment: Deployment) -> list[Step]:
    """Return the steps from the processes that run to the deployment."""
    running = {key: Running.of(each.daemon) for key, each in live.items()}
    return plan(deployment.daemons, running)


def check_owner(deployment: Deployment, state: StateDir) -> None:
    """Check that the state directory belongs to this deployment. Raises DeployError."""
    if state.exists():
        owner = read_deployment(state).name
        if owner != deployment.name:
            raise DeployError(
                f"{state.path} belongs to deployment {owner!r}, not {deployment.name!r}",
                ["choose another --state-dir"],
            )


def check_ensembles(deployment: Deployment, before: Deployment | None) -> None:
    """Check that each ZooKeeper ensemble can get to its nodes. Raises DeployError."""
    if before is None:
        if deployment.elsewhere:
            from topology.ensemble.growth import first_start_problems

            _refuse_nodes(first_start_problems(deployment))
        return
    _check_nodes(deployment, before)
    growing = [each for each in growths(before, deployment) if len(each.before.nodes) > 1]
    if not growing:
        return
    from topology.ensemble.growth import silent_members

    here = {each.key for each in before.daemons}
    for each in growing:
        if silent := silent_members(each, here):
            raise DeployError(
                f"{each.sentence()} only while all its nodes serve clients; nothing was changed",
                [f"{label} does not serve clients" for label in silent],
            )


def _check_nodes(deployment: Deployment, before: Deployment | None) -> None:
    _refuse_nodes(ensemble_problems(before, deployment))


def _refuse_nodes(problems: list[str]) -> None:
    if problems:
        raise DeployError("a ZooKeeper ensemble cannot change so; nothing was changed", problems)


def check_installed(deployment: Deployment) -> None:
    """Check that this host can run its embedded ZooKeeper servers. Raises DeployError."""
    if all(each.argv for each in deployment.daemons):
        return
    try:
        find_java()
        find_jars()
    except ZooKeeperUnavailable as error:
        raise DeployError(str(error)) from error


def check_removals(deployment: Deployment, state: StateDir) -> None:
    """Check that no broker and no log directory that is removed holds replicas.

    Raises DeployError.
    """
    problems = broker_problems(_replicas_of_removed(deployment, state))
    if problems:
        hint = "or give up what they hold with --abandon-replicas"
        raise DeployError(
            "brokers that leave hold replicas; nothing was changed", [*problems, hint]
        )
    _check_log_dirs(deployment, state)


def _check_log_dirs(deployment: Deployment, state: StateDir) -> None:
    if not state.exists():
        return
    problems = log_dir_problems(removed_log_dirs(read_deployment(state), deployment))
    if problems:
        hint = "keep them in `log_dirs`, or give up what they hold with --abandon-replicas"
        raise DeployError(
            "log directories that leave hold replicas; nothing was changed", [*problems, hint]
        )


def check_protocols(deployment: Deployment, live: Mapping[str, StartedProcess]) -> None:
    """Check that running brokers can take the new security in one step. Raises DeployError."""
    running = {key: each.daemon for key, each in live.items()}
    problems = protocol_problems(running, deployment)
    if problems:
        hint = "stop the deployment by `heliograph down`, then run `heliograph up`"
        raise DeployError(
            "a listener's protocol cannot change while brokers run; nothing was changed",
            [*problems, hint],
        )
    problems = port_problems(running, deployment)
    if problems:
        raise DeployError(
            "listeners come or go, and others would move; nothing was changed", problems
        )
    problems = authorizer_problems(running, deployment)
    if problems:
        raise DeployError(
            "a running cluster without an authorizer has no ACLs yet; nothing was changed", problems
        )
    _check_moves(running, deployment)
    problems = zookeeper_problems(running, deployment)
    if problems:
        raise DeployError(
            "ZooKeeper's user and ACLs change in phases; nothing was changed", problems
        )
    _check_zookeeper_users(running, deployment)


def _check_moves(running: Mapping[str, Daemon], deployment: Deployment) -> None:
    """Check that no move of listeners skips a phase. Raises DeployError."""
    if any(len(cluster.brokers) > 1 for cluster in deployment.clusters):
        from topology.operate.broker_moves import check_moves

        check_moves(running, deployment)


def _check_zookeeper_users(running: Mapping[str, Daemon], deployment: Deployment) -> None:
    """Check that brokers with another user, or none, can still change every znode.

    Raises DeployError.
    """
    changed = changed_zookeeper_users(running, deployment)
    if not changed:
        return
    from topology.operate.znode_acls import count_acls

    problems = []
    for name, new in changed.items():
        closed = count_acls(new).other
        if closed:
            problems.append(f"{name}: {closed} znodes belong to another user")
    if problems:
        hint = "`heliograph zookeeper unsecure` opens them, when no broker has `set_acl`"
        raise DeployError(
            "brokers would lose access to ZooKeeper; nothing was changed", [*problems, hint]
        )


def check_ports(
    deployment: Deployment, steps: list[Step], live: Mapping[str, StartedProcess]
) -> None:
    """Check that every port of the daemons to start can be bound.

    Raises DeployError that names every port that cannot.
    """
    ours = {port for each in live.values() for port in each.daemon.ports}
    starting = {step.key for step in steps if step.action != "stop"}
    problems = [
        problem
        for daemon in deployment.daemons
        if daemon.key in starting
        for address in daemon.ports
        if address not in ours and (problem := _port_problem(daemon.label, *address))
    ]
    if problems:
        raise DeployError("some ports cannot be used; nothing was started", problems)


def check_supervisor_port(deployment: Deployment, state: StateDir) -> None:
    """Check that the supervisor can bind its HTTP port. Raises DeployError."""
    has_it = state.exists() and state.is_locked()
    ours = read_deployment(state).supervisor_addresses if has_it else ()
    problems = [
        problem
        for address in deployment.supervisor_addresses
        if address not in ours and (problem := _port_problem("supervisor", *address))
    ]
    if problems:
        raise DeployError("the supervisor cannot use its port; nothing was started", problems)


def _replicas_of_removed(
    deployment: Deployment, state: StateDir
) -> dict[RemovedBroker, int | None]:
    removed = removed_brokers(read_deployment(state), deployment) if state.exists() else []
    if not removed:
        return {}
    from topology.operate.controller_metadata import count_replicas

    return count_replicas(removed)


def _port_problem(label: str, host: str, port: int) -> str | None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            attempt.bind(address)
    except OSError as error:
        what = f"{label}: {host}:{port}"
        if error.errno == errno.EADDRINUSE:
            return f"{what} is in use by another process"
        if error.errno == errno.EADDRNOTAVAIL:
            return f"{what} is not an address of this machine"
        return f"{what}: {error.strerror or error}"
    return None
