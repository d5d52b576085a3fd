"""`heliograph top`: a live screen of a deployment.

The command imports what it needs when it runs, to keep start-up short.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import Annotated

import typer

from topology.cli.command_line import (
    EXIT_USAGE,
    Output,
    OutputOption,
    StateDirOption,
    Which,
    fail,
    find_deployment,
    print_json,
)


def top(
    deployment: Which = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
    interval: Annotated[
        float, typer.Option("--interval", min=0.5, help="Seconds between two looks.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one view, and end.")] = False,
) -> None:
    """Show clusters, links, brokers and groups on a live screen; q ends it, p pauses it.

    `--once` and `-o json` look twice, `--interval` seconds apart, so that rates are known.
    """
    from topology.problems import DeployError
    from topology.top.collect import take_snapshot

    state = find_deployment(deployment, state_dir)
    if not once and output is not Output.json:
        if not sys.stdout.isatty():
            fail("the screen needs a terminal; --once prints one view", code=EXIT_USAGE)
        from topology.top.screen import TopScreen

        TopScreen(lambda: take_snapshot(state), interval).run()
        return
    try:
        before = take_snapshot(state)
        time.sleep(interval)
        now = take_snapshot(state)
    except DeployError as error:
        fail(str(error), error.details)
    from topology.top.view import view_of

    view = view_of(now, before)
    if output is Output.json:
        print_json(asdict(view))
        return
    from topology.cli.show import plain_console, plain_table
    from topology.top.show import headline_of, tables_of

    console = plain_console()
    console.print(headline_of(view))
    for title, columns, rows in tables_of(view):
        if rows:
            table = plain_table(*columns)
            for row in rows:
                table.add_row(*row)
            console.print(f"\n{title}")
            console.print(table)
