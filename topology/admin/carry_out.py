"""Carries out the changes of a command: `--dry-run`, confirmation, exit code."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from topology.admin.cluster_choice import ClusterChoice
from topology.admin.output import emit, print_lines
from topology.cli.command_line import EXIT_ERROR, EXIT_USAGE, complain, fail

if TYPE_CHECKING:
    from local_cluster.client.client import KafkaClient
    from local_cluster.wire.errors import KafkaError
    from topology.admin.changes import Change

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only show what would change; change nothing.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
SHOWN_MAX = 20
"""Changes that a question lists."""

Plan = Callable[["KafkaClient"], Awaitable[Sequence["Change"]]]
Results = Awaitable[Sequence["KafkaError | None"]]
Apply = Callable[["KafkaClient", Sequence["Change"]], Results]
Check = Callable[["KafkaClient", Sequence["Change"]], Results]


def carry_out(
    choice: ClusterChoice,
    plan: Plan,
    apply: Apply,
    *,
    dry_run: bool,
    destroys: str | None = None,
    yes: bool = False,
    check: Check | None = None,
) -> None:
    """Plan changes, ask if they destroy something, apply them, and show the result.

    `destroys` says what is lost for good. `check` lets the broker check the changes of a dry run.
    Ends the command with 1 if the cluster refuses a change, with 2 if nobody confirms.
    """
    from topology.admin.changes import change_lines, changes_document, has_refusals

    changes = choice.run(plan)
    results: Sequence[KafkaError | None] | None = None
    refused_early = False
    if dry_run:
        if check is not None and changes:
            checked = choice.run(lambda client: check(client, changes))
            refused_early = any(checked)
            results = checked if refused_early else None
    elif changes:
        if destroys is not None and not yes:
            confirm(change_lines(changes_document(changes, None)), destroys)
        results = choice.run(lambda client: apply(client, changes))
    document = changes_document(changes, results)
    document["dry_run"] = dry_run
    if refused_early:
        for each in document["changes"]:
            each["state"] = "planned" if each["state"] == "done" else each["state"]
    emit(choice.output, document, lambda shown: print_lines(change_lines(shown)))
    if has_refusals(document):
        raise typer.Exit(EXIT_ERROR)


def confirm(lines: Sequence[str], destroys: str) -> None:
    """Ask on a terminal; without one, or without consent, end the command with 2."""
    shown = [*lines[:SHOWN_MAX]]
    if len(lines) > SHOWN_MAX:
        shown.append(f"and {len(lines) - SHOWN_MAX} more")
    complain(shown)
    if not sys.stdin.isatty():
        fail(f"this {destroys}; confirm it with --yes", code=EXIT_USAGE)
    if not typer.confirm(f"This {destroys}. Continue?", err=True):
        fail("nothing was changed", code=EXIT_USAGE)
