"""`heliograph mirror ...`: options in, words and exit codes out.

Import time matters here: what a command needs is imported when it runs.
"""

from __future__ import annotations

from typing import Annotated

import typer

from topology.command_line import (
    Output,
    OutputOption,
    StateDirOption,
    Which,
    fail,
    find_deployment,
    print_json,
)

mirror_app = typer.Typer(help="Look after links: sync, pause, resume, throttle.")
LinkOption = Annotated[
    str | None, typer.Option("--link", help="Only this link.", show_default=False)
]


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
    """Give copies the configs and ACLs of their sources, now, where links sync them."""
    from topology.deploy import DeployError, read_deployment
    from topology.mirror_sync import SyncFailed, sync_links

    try:
        found = read_deployment(find_deployment(deployment, state_dir))
        changes = sync_links(found, link, dry_run=dry_run)
    except DeployError as error:
        fail(str(error), error.details)
    except SyncFailed as error:
        fail(str(error))
    if output is Output.json:
        print_json({"dry_run": dry_run, "changes": changes})
        return
    for change in changes:
        values = f": {change['before']} -> {change['after']}" if "config" in change["kind"] else ""
        reason = f" ({change['reason']})" if change["reason"] else ""
        kind = change["kind"].replace("_", " ")
        typer.echo(
            f"{change['link']}: {change['state']}: {kind} {change['resource']}"
            f" {change['name']}{values}{reason}"
        )
    if not changes:
        typer.echo("everything is as it should be")
