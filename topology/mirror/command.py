"""`heliograph mirror ...`: its options, output and exit codes.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from local_cluster.process_log import configure_log
from topology.cli.command_line import (
    EXIT_ERROR,
    EXIT_USAGE,
    Output,
    OutputOption,
    StateDirOption,
    Which,
    complain,
    fail,
    find_deployment,
    load_file,
    print_json,
)
from topology.cli.completion import link_names
from topology.mirror.repair import repair

if TYPE_CHECKING:
    from topology.model import Topology

Response = TypeVar("Response")

NamedLink = Annotated[
    str, typer.Option("--link", help="Name of the link.", autocompletion=link_names)
]
TopicOption = Annotated[
    str | None, typer.Option("--topic", help="Only this topic of the source.", show_default=False)
]
PartitionOption = Annotated[
    int | None,
    typer.Option("--partition", min=0, help="Only this partition of it.", show_default=False),
]
RateOption = Annotated[
    int | None,
    typer.Option(min=0, metavar="BYTES", help="Bytes per second; 0 for no limit."),
]
mirror_app = typer.Typer(
    help="Links: run their workers, sync, pause, resume, throttle, retry, repair."
)
mirror_app.command()(repair)
LinkOption = Annotated[
    str | None,
    typer.Option("--link", help="Only this link.", show_default=False, autocompletion=link_names),
]


@mirror_app.command()
def run(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Topology file.", show_default=False)
    ] = None,
    mm2: Annotated[
        Path | None,
        typer.Option("--mm2", help="MirrorMaker 2's properties instead.", show_default=False),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", help="Only links into this cluster.", show_default=False),
    ] = None,
    worker_id: Annotated[
        str | None,
        typer.Option("--worker-id", help="Unique among workers; default: the host's name."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only show what would be done, and what would not.")
    ] = False,
) -> None:
    """Run the mirror workers of a file on this host, until stopped."""
    import tempfile

    from local_cluster.client.group import GroupFencedError
    from topology.mirror.local_workers import run_workers, worker_settings

    if (file is None) == (mm2 is None):
        fail("name either a topology file or --mm2 FILE", code=EXIT_USAGE)
    if mm2 is not None:
        topology, source = _load_mm2(mm2), mm2
    else:
        assert file is not None
        topology, source = load_file(file), file
    with tempfile.TemporaryDirectory(prefix="heliograph-mirror-") as directory:
        try:
            workers = worker_settings(
                topology,
                topology_file=source,
                directory=Path(directory),
                worker_id=worker_id,
                targets=target or (),
            )
        except ValueError as error:
            fail(str(error), code=EXIT_USAGE)
        for settings in workers:
            names = ", ".join(each.name for each in settings.links)
            typer.echo(f"{settings.worker_id}: {names}", err=True)
        if check:
            return
        configure_log("INFO", topology.log_format)
        try:
            run_workers(workers)
        except* (GroupFencedError, OSError) as errors:
            first: BaseException = errors
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            fail(str(first))


def _load_mm2(file: Path) -> Topology:
    """Return the topology of MirrorMaker 2's properties, and print which of them have no effect."""
    import os

    from topology.file.mm2_properties import read_mm2

    try:
        reading = read_mm2(file.read_text())
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}", code=EXIT_USAGE)
    except UnicodeDecodeError:
        fail(f"cannot read {file}: it is not UTF-8 text", code=EXIT_USAGE)
    complain([remark.sentence(str(file)) for remark in reading.remarks])
    if reading.topology is None:
        raise typer.Exit(EXIT_USAGE)
    os.environ.update(reading.secrets)
    return reading.topology


@mirror_app.command()
def sync(
    deployment: Which = None,
    link: LinkOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change.")
    ] = False,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Sync the configs and ACLs of copies now, for links that sync them.

    Also shows the copies whose source topics were deleted, and what workers are to change in ACLs
    of groups and transactional ids, and in quotas. Exits with 1 if a target refuses a
    change, or if a cluster or worker does not respond.
    """
    from topology.deployment.deployment import read_deployment
    from topology.mirror.config_sync import SyncFailed, sync_links
    from topology.problems import DeployError

    try:
        found = read_deployment(find_deployment(deployment, state_dir))
        changes = sync_links(found, link, dry_run=dry_run)
    except DeployError as error:
        fail(str(error), error.details)
    except SyncFailed as error:
        fail(str(error))
    if output is Output.json:
        print_json({"dry_run": dry_run, "changes": changes})
    else:
        _print_changes(changes)
    if any(change["state"] == "refused" for change in changes):
        raise typer.Exit(EXIT_ERROR)


def _print_changes(changes: list[dict[str, Any]]) -> None:
    for change in changes:
        has_values = change["kind"].endswith(("config", "quota"))
        values = f": {change['before']} -> {change['after']}" if has_values else ""
        reason = f" ({change['reason']})" if change["reason"] else ""
        kind = change["kind"].replace("_", " ")
        typer.echo(
            f"{change['link']}: {change['state']}: {kind} {change['resource']}"
            f"{' ' if change['name'] else ''}{change['name']}{values}{reason}"
        )
    if not changes:
        typer.echo("nothing to change")


@mirror_app.command()
def pause(
    link: NamedLink,
    deployment: Which = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Pause a link, a topic or a partition, until it is resumed."""
    _control("pause", link, deployment, output, state_dir, topic=topic, partition=partition)


@mirror_app.command()
def resume(
    link: NamedLink,
    deployment: Which = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Resume a paused link, topic or partition."""
    _control("resume", link, deployment, output, state_dir, topic=topic, partition=partition)


@mirror_app.command()
def throttle(
    link: NamedLink,
    deployment: Which = None,
    source: RateOption = None,
    target: RateOption = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Set how fast a link may read from its source and write to its target."""
    if source is None and target is None:
        fail("name --source, --target or both", code=EXIT_USAGE)
    rates = {"source_bytes_per_second": source, "target_bytes_per_second": target}
    _control("throttle", link, deployment, output, state_dir, **rates)


@mirror_app.command()
def retry(
    link: NamedLink,
    deployment: Which = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Retry stopped partitions now: of a link, of a topic, or one partition."""
    from topology.mirror.worker_http import post_to_all

    # The partitions of a link are spread over its workers, and each knows only its own.
    values = {"topic": topic, "partition": partition}
    responses = _send(post_to_all, "retry", link, deployment, state_dir, values)
    retried = [at for response in responses.given for at in response["retried"]]
    if output is Output.json:
        print_json({"retried": retried})
    else:
        for at in retried:
            typer.echo(f"{link}: retried: {at['topic']}-{at['partition']}")
        if not retried:
            typer.echo(f"{link}: no partition of it is stopped")
    if responses.failures:
        fail("not every worker responded", [f"  {each}" for each in responses.failures])


def _control(
    action: str,
    link: str,
    deployment: str | None,
    output: Output,
    state_dir: Path | None,
    **values: object,
) -> None:
    """Change the controls of a link, and show all that are in effect."""
    from topology.mirror.worker_http import post

    controls = _send(post, action, link, deployment, state_dir, values)
    if output is Output.json:
        print_json(controls)
        return
    for part in controls["paused"]:
        topic, partition = part["topic"], part["partition"]
        named = "everything" if topic is None else topic
        typer.echo(f"{link}: paused: {named if partition is None else f'{named}-{partition}'}")
    for side in ("source", "target"):
        rate = controls[f"{side}_bytes_per_second"]
        if rate is not None:
            typer.echo(f"{link}: {side}: {f'{rate} bytes per second' if rate else 'no limit'}")


def _send(
    send: Callable[..., Response],
    action: str,
    link: str,
    deployment: str | None,
    state_dir: Path | None,
    values: Mapping[str, object],
) -> Response:
    """Return what `send` of worker_http.py returns; end the command without a response."""
    from topology.deployment.deployment import read_deployment
    from topology.problems import DeployError
    from topology.status.process_http import CallFailed

    if values.get("partition") is not None and values.get("topic") is None:
        fail("a partition needs its --topic", code=EXIT_USAGE)
    try:
        found = read_deployment(find_deployment(deployment, state_dir))
        return send(found, link, action, **values)
    except DeployError as error:
        fail(str(error), error.details)
    except CallFailed as error:
        fail(str(error))
