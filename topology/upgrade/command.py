"""`heliograph upgrade`: begins or continues an upgrade of all hosts, and follows it.

The hosts carry it out by themselves, so the command may end at any time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from topology.cli.command_line import (
    EXIT_UNHEALTHY,
    EXIT_USAGE,
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
    from topology.deployment.deployment import Deployment
    from topology.deployment.zookeeper_access import ZooKeeperAccess
    from topology.upgrade.upgrade_plan import Change, UpgradePlan

FOLLOW_POLL_S: Final = 1.0
IDLE_S: Final = 60.0
"""Seconds without any host at work after which following ends."""
ENDS: Final = ("failed", "stopped")


StatusOption = Annotated[
    bool, typer.Option("--status", help="Show how far the hosts are; change nothing.")
]
StopOption = Annotated[bool, typer.Option("--stop", help="Stop after the process at hand.")]
BackOption = Annotated[
    bool, typer.Option("--back", help="Go back to the former version, last host first.")
]
FinalizeOption = Annotated[
    bool,
    typer.Option(
        "--finalize", help="Give the former version up: data may get newer formats from now on."
    ),
]
OrderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--order",
        metavar="HOST",
        help="Host that is upgraded first; repeated for the next ones. Default: as in the file.",
        show_default=False,
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=1,
        help="How long each process may take, and before that everything to be in sync.",
    ),
]
WaitOption = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Follow the hosts until they are done.")
]


def upgrade(
    deployment: Which = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
    status: StatusOption = False,
    stop: StopOption = False,
    back: BackOption = False,
    finalize: FinalizeOption = False,
    order: OrderOption = None,
    timeout_s: TimeoutOption = 120.0,
    wait: WaitOption = True,
) -> None:
    """Let all hosts take over the installed version, one process after the other.

    Install the package on each host first. The supervisor of each host takes its turn, and restarts
    a process only when everything is in sync. The first trouble stops all. The hosts go on when
    this command ends; run it again to follow or to continue them.

    Exits with 0 when every host is done, and with 1 when the command is refused. Exits with 4 when
    the upgrade was stopped, by trouble or by `--stop`, or when no host works on it.
    """
    words = [status, stop, back, finalize]
    if sum(words) > 1:
        fail("only one of --status, --stop, --back and --finalize", code=EXIT_USAGE)
    if order and any(words):
        fail("--order goes with a new upgrade only", code=EXIT_USAGE)
    from topology.deployment.deployment import read_deployment
    from topology.problems import DeployError
    from topology.upgrade.plan_znode import change_plan, plan_place
    from topology.upgrade.upgrade_plan import NotNow

    state = find_deployment(deployment, state_dir)
    follows = wait and not (status or stop or finalize)
    try:
        stored = read_deployment(state)
        place = plan_place(stored)
        if stop:
            change_plan(place, _stop())
        elif finalize:
            change_plan(place, _finalize())
            _raise_levels(stored)
        elif not status:
            change_plan(place, _begin(stored, order or (), timeout_s, back=back))
        document = _followed(stored, place, output) if follows else _document(stored, place)
    except (DeployError, NotNow) as error:
        fail(str(error), getattr(error, "details", ()))
    except KeyboardInterrupt:
        fail("interrupted; the hosts go on, and `heliograph upgrade --stop` stops them")
    _show(document, output)
    is_idle = follows and document["state"] == "running"
    if is_idle or (document["state"] in ENDS and not stop):
        raise typer.Exit(EXIT_UNHEALTHY)


def _stop() -> Change:
    from topology.upgrade import upgrade_plan

    return upgrade_plan.stop


def _finalize() -> Change:
    from importlib.metadata import version

    from topology.upgrade import upgrade_plan

    return upgrade_plan.finalize(version("heliograph"))


def _begin(deployment: Deployment, first: Sequence[str], timeout_s: float, *, back: bool) -> Change:
    """Return the change that begins or continues an upgrade, or the way back. Raises NotNow."""
    import socket
    from datetime import UTC, datetime
    from importlib.metadata import version

    from topology.upgrade import upgrade_plan

    by, at = socket.gethostname(), datetime.now(UTC).isoformat(timespec="seconds")
    if back:
        return upgrade_plan.back(timeout_s=timeout_s, by=by, at=at)
    installed = version("heliograph")
    every = [*deployment.daemons, *deployment.elsewhere]
    hosts = upgrade_plan.ordered((each.host for each in every), first)
    return upgrade_plan.begin(
        installed, _former(deployment, installed), hosts, timeout_s=timeout_s, by=by, at=at
    )


def _former(deployment: Deployment, installed: str) -> str:
    """Return another version that `up` has started here; empty without one."""
    versions = (each.version for each in deployment.daemons)
    return next((each for each in versions if each and each != installed), "")


def _raise_levels(deployment: Deployment) -> None:
    """Allow the formats of this version in every own cluster. Raises DeployError."""
    from topology.problems import DeployError
    from topology.upgrade.plan_znode import places_of, raise_level

    for name, place in places_of(deployment).items():
        try:
            raise_level(place)
        except DeployError as error:
            raise DeployError(
                f"{error}; the formats of {name} have the level that they had",
                ["`heliograph upgrade --finalize` continues from here"],
            ) from error


def _document(deployment: Deployment, place: ZooKeeperAccess) -> dict[str, Any]:
    from importlib.metadata import version

    from topology.upgrade.plan_znode import places_of, read_levels, read_plan
    from topology.upgrade.show import upgrade_document

    stored = read_plan(place)
    return upgrade_document(
        deployment.name,
        stored.plan,
        stored.turn,
        installed=version("heliograph"),
        levels=read_levels(places_of(deployment)),
    )


def _followed(deployment: Deployment, place: ZooKeeperAccess, output: Output) -> dict[str, Any]:
    """Follow the hosts until all are done, or none goes on; return the document then.

    A ZooKeeper that does not answer for a moment ends nothing. Raises DeployError if it stays away.
    """
    from topology.problems import DeployError
    from topology.upgrade.plan_znode import read_plan

    seen: UpgradePlan | None = None
    idle_since_s = time.monotonic()
    while True:
        try:
            stored = read_plan(place)
        except DeployError:
            if time.monotonic() - idle_since_s > IDLE_S:
                raise
            time.sleep(FOLLOW_POLL_S)
            continue
        if output is Output.human:
            _say_news(seen, stored.plan)
        # A host with another package takes the turn for a moment, again and again.
        works = stored.turn is not None and stored.plan is not None and stored.plan.has_begun
        if works or stored.plan != seen:
            idle_since_s = time.monotonic()
        seen = stored.plan
        is_over = seen is None or seen.state != "running"
        # The host in its turn still ends it, or gives it back.
        if (is_over and stored.turn is None) or time.monotonic() - idle_since_s > IDLE_S:
            return _document(deployment, place)
        time.sleep(FOLLOW_POLL_S)


def _say_news(before: UpgradePlan | None, plan: UpgradePlan | None) -> None:
    """Print the hosts whose state or reason has changed, on standard error."""
    from topology.upgrade.show import host_lines

    known = set() if before is None else set(before.hosts)
    for host in () if plan is None else plan.hosts:
        if host not in known and (before is not None or host.state != "waiting"):
            complain(host_lines(host))


def _show(document: dict[str, Any], output: Output) -> None:
    from topology.upgrade.show import upgrade_lines

    if output is Output.json:
        print_json(document)
        return
    for line in upgrade_lines(document):
        typer.echo(line)
