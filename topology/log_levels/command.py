"""`heliograph log-level`: its options, output and exit codes.

The command imports what it needs when it runs, to keep start-up short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from topology.admin.output import Format, FormatOption, emit, print_table
from topology.cli.command_line import (
    EXIT_ERROR,
    EXIT_USAGE,
    DeploymentOption,
    StateDirOption,
    complain,
    fail,
    find_deployment,
)

if TYPE_CHECKING:
    from topology.deployment.deployment import Daemon, Deployment
    from topology.log_levels.process_loggers import Failure

COLUMNS: Final = (
    ("process", "process"),
    ("logger", "logger"),
    ("level", "level"),
    ("set here", "is_set"),
)
CHANGED: Final = (*COLUMNS[:2], ("before", "before"), ("now", "level"))


NameArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[PROCESS|LINK|CLUSTER]",
        help="A process as `status` names it; a link: its workers; a cluster: the workers of"
        " the links into it, and its aggregator. Default: all of this host.",
        show_default=False,
    ),
]
LevelsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[LOGGER=LEVEL...]",
        help="New levels: TRACE, DEBUG, INFO, WARN, ERROR or FATAL. `root` is a logger, and so"
        " is a package such as mirror_maker.",
        show_default=False,
    ),
]
ResetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--reset", metavar="LOGGER", help="Back to its parent's level.", show_default=False
    ),
]
AllOption = Annotated[
    bool, typer.Option("--all", help="Show every logger, not only those with an own level.")
]


def log_level(
    name: NameArgument = None,
    assigned: LevelsArgument = None,
    reset: ResetOption = None,
    show_all: AllOption = False,
    deployment: DeploymentOption = None,
    output: FormatOption = Format.human,
    state_dir: StateDirOption = None,
) -> None:
    """Show or change the levels of loggers of mirror workers and aggregators, while they run.

    A level lasts until the process ends. Nothing changes unless every process that is meant
    responds and has the loggers. Exits with 1 if one does not.
    """
    from topology.deployment.deployment import read_deployment
    from topology.log_levels.chosen import chosen_processes, wanted_levels
    from topology.problems import DeployError

    pairs = list(assigned or ())
    if name is not None and "=" in name:
        pairs.insert(0, name)
        name = None
    try:
        running = read_deployment(find_deployment(deployment, state_dir))
        wanted = wanted_levels(pairs, reset or ())
        processes = chosen_processes(running, name)
    except DeployError as error:
        fail(str(error), error.details)
    except ValueError as error:
        fail(str(error), code=EXIT_USAGE)
    if not processes:
        fail("no mirror worker or aggregator belongs to this host", code=EXIT_USAGE)
    if wanted:
        found, failures = _change(running, processes, wanted)
    else:
        from topology.log_levels.process_loggers import read_levels

        found, failures = read_levels(running, processes)
        if not show_all:
            found = {key: [each for each in rows if each["is_set"]] for key, rows in found.items()}
    document = {
        "processes": [{"process": key, "loggers": rows} for key, rows in found.items()],
        "failed": [each._asdict() for each in failures],
    }
    emit(output, document, lambda shown: _print(shown, CHANGED if wanted else COLUMNS))
    complain([f"heliograph: {each.reason}" for each in failures])
    if failures:
        raise typer.Exit(EXIT_ERROR)


def _change(
    running: Deployment, processes: Sequence[Daemon], wanted: Mapping[str, str | None]
) -> tuple[dict[str, list[dict[str, Any]]], Sequence[Failure]]:
    """Set levels; return the changed loggers with the level `before`, by process, and failures."""
    from topology.log_levels.process_loggers import read_levels, set_levels, unknown_loggers

    known, failures = read_levels(running, processes)
    failures += unknown_loggers(wanted, known)
    if failures:
        fail("nothing was changed:", [f"  {each.reason}" for each in failures])
    changed, failures = set_levels(running, processes, wanted)
    before = {key: {each["logger"]: each["level"] for each in rows} for key, rows in known.items()}
    rows_by_key = {
        key: [{**each, "before": before[key][each["logger"]]} for each in rows]
        for key, rows in changed.items()
    }
    return rows_by_key, failures


def _print(document: Mapping[str, Any], columns: Sequence[tuple[str, str]]) -> None:
    rows = [
        {"process": each["process"], **row}
        for each in document["processes"]
        for row in each["loggers"]
    ]
    print_table(columns, rows, nothing="no mirror worker or aggregator responds")
