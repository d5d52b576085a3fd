"""`heliograph audit`: its options, output and exit codes.

The command imports what it needs when it runs, to keep start-up short.
"""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from topology.cli.command_line import (
    EXIT_UNHEALTHY,
    EXIT_USAGE,
    DeploymentOption,
    Output,
    OutputOption,
    StateDirOption,
    complain,
    fail,
    find_deployment,
    print_json,
)

UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d+)([smhd])")


def audit(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[LINK|TOPIC]",
            help="Only this link, or this topic of the source or target; default: every link.",
            show_default=False,
        ),
    ] = None,
    records: Annotated[
        bool,
        typer.Option("--records", help="Read both logs and compare every record."),
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Only records from this time on: 30m, 2h, 7d, or 2026-01-01T00:00:00Z.",
            show_default=False,
        ),
    ] = None,
    deployment: DeploymentOption = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Check whether the copies hold what their sources hold.

    Without --records the result comes at once, from the verdicts that mirrors publish. With
    --records both logs are read and compared record by record. Exits with 4 if a record is lost,
    doubled, altered or foreign.
    """
    from topology.audit.question import AuditQuestion, AuditUnreadable, UnknownName
    from topology.audit.reading import read_audit
    from topology.deployment.deployment import read_deployment
    from topology.problems import DeployError

    now_ms = time.time_ns() // 1_000_000
    try:
        since_ms = None if since is None else parse_since(since, now_ms)
    except ValueError as error:
        fail(str(error), code=EXIT_USAGE)
    question = AuditQuestion(name=name, since_ms=since_ms, with_records=records)
    try:
        running = read_deployment(find_deployment(deployment, state_dir))
        links = read_audit(running, question, now_ms=now_ms, progress=_print_progress)
    except DeployError as error:
        fail(str(error), error.details)
    except UnknownName as error:
        fail(f"{running.name}: {error}", code=EXIT_USAGE)
    except AuditUnreadable as error:
        fail(str(error))
    if output is Output.json:
        print_json({"links": links})
    else:
        from topology.audit.show import print_audit

        print_audit(links)
    if not all(_is_well(link) for link in links):
        raise typer.Exit(EXIT_UNHEALTHY)


def parse_since(text: str, now_ms: int) -> int:
    """Return a time in milliseconds since the epoch. Raises ValueError that names the formats."""
    duration = _DURATION.fullmatch(text)
    if duration is not None:
        return now_ms - int(duration[1]) * UNITS_MS[duration[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(
            f"--since {text!r} is neither a duration such as 30m, 2h or 7d, nor a time with its"
            " zone such as 2026-01-01T00:00:00Z"
        )
    return round(moment.timestamp() * 1000)


def _is_well(link: dict[str, Any]) -> bool:
    return bool(link["is_well"]) and all(each["is_well"] for each in link.get("records_read", ()))


def _print_progress(line: str) -> None:
    complain([line])
