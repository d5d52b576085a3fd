"""`heliograph link ...`: the links of a deployment, as `status` and their workers see them.

`heliograph mirror` pauses, resumes, throttles, retries and repairs them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topology.admin.output import Format, FormatOption, emit, print_lines, print_table
from topology.cli.command_line import (
    EXIT_UNHEALTHY,
    EXIT_USAGE,
    StateDirOption,
    Which,
    fail,
    find_deployment,
)
from topology.cli.completion import link_names

if TYPE_CHECKING:
    from topology.deployment.deployment import Deployment

link_app = typer.Typer(
    no_args_is_help=True,
    help="Links: list, describe. `heliograph mirror` changes and repairs them.",
)
NamedLink = Annotated[
    str, typer.Argument(metavar="LINK", help="Name of the link.", autocompletion=link_names)
]
LIST_COLUMNS = (
    ("link", "name"),
    ("from", "source"),
    ("to", "target"),
    ("state", "state"),
    ("topics", "topics"),
    ("partitions", "partitions"),
    ("lag", "lag_records"),
    ("lag s", "lag_seconds"),
)
FLOW_COLUMNS = (
    ("partition", "partition"),
    ("copy", "target_topic"),
    ("state", "state"),
    ("copied to", "source_next"),
    ("end", "source_high_watermark"),
    ("lag", "lag_records"),
    ("gaps", "gaps"),
    ("reason", "reason"),
)


@link_app.command("list")
def list_links(
    deployment: Which = None,
    output: FormatOption = Format.human,
    state_dir: StateDirOption = None,
) -> None:
    """List links with state and lag. Exits with 4 if a link does not do its work."""
    from topology.status.diagnosis import ELSEWHERE, LINK_RUNS

    links = _status(deployment, state_dir)[1]["links"]

    def show(document: dict[str, Any]) -> None:
        print_table(LIST_COLUMNS, document["links"], nothing="there are no links")
        print_lines(
            f"{each['name']}: {each['reason']}" for each in document["links"] if each["reason"]
        )

    emit(output, {"links": links}, show)
    if any(each["state"] not in LINK_RUNS | {ELSEWHERE} for each in links):
        raise typer.Exit(EXIT_UNHEALTHY)


@link_app.command("describe")
def describe_link(
    link: NamedLink,
    deployment: Which = None,
    output: FormatOption = Format.human,
    state_dir: StateDirOption = None,
) -> None:
    """Show what a link copies: every partition with its copy, its state and its lag.

    Exits with 4 if the link does not do its work.
    """
    from topology.mirror.worker_http import get
    from topology.problems import unknown_name
    from topology.status.diagnosis import LINK_RUNS
    from topology.status.process_http import CallFailed

    running, status = _status(deployment, state_dir)
    found = next((each for each in status["links"] if each["name"] == link), None)
    if found is None:
        known = [each.name for each in running.links]
        fail(f"{running.name}: {unknown_name('link', link, known)}", code=EXIT_USAGE)
    try:
        reports = get(running, link, "status")["links"]
        report = next((each for each in reports if each["name"] == link), None)
    except CallFailed:
        report = None  # the state says that its worker does not answer
    document = {**found, "worker": report}

    def show(shown: dict[str, Any]) -> None:
        print_lines(link_lines(shown))
        flows = (shown["worker"] or {}).get("flows", [])
        rows = [{**each, "partition": f"{each['topic']}-{each['partition']}"} for each in flows]
        print_table(FLOW_COLUMNS, rows, nothing="no partition is known")

    emit(output, document, show)
    if found["state"] not in LINK_RUNS:
        raise typer.Exit(EXIT_UNHEALTHY)


def link_lines(document: dict[str, Any]) -> list[str]:
    """Return the lines above the table of partitions."""
    reason = f": {document['reason']}" if document["reason"] else ""
    lines = [
        f"link {document['name']}: {document['source']} -> {document['target']},"
        f" {document['state']}{reason}"
    ]
    worker = document["worker"] or {}
    for part in worker.get("controls", {}).get("paused", []):
        topic, partition = part["topic"], part["partition"]
        at = "everything" if topic is None else topic
        lines.append(f"paused: {at if partition is None else f'{at}-{partition}'}")
    if worker.get("topics_left_out"):
        lines.append(f"not copied: {', '.join(worker['topics_left_out'])}")
    lines += [f"right missing: {each}" for each in worker.get("rights_missing") or ()]
    return lines


def _status(which: str | None, state_dir: Path | None) -> tuple[Deployment, dict[str, Any]]:
    from topology.deployment.deployment import read_deployment
    from topology.problems import DeployError
    from topology.status.observe import current_status

    try:
        state = find_deployment(which, state_dir)
        return read_deployment(state), current_status(state)
    except DeployError as error:
        fail(str(error), error.details)
