"""`heliograph completeness`: until when the merged topics are complete, over all datacenters.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from topology.cli.command_line import (
    Output,
    OutputOption,
    StateDirOption,
    Which,
    fail,
    find_deployment,
    print_json,
)


def completeness(
    deployment: Which = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", help="Only this merged topic, with its partitions."),
    ] = None,
    late: Annotated[
        int,
        typer.Option(
            "--late",
            metavar="SECONDS",
            min=0,
            help="A fast answer continues without datacenters that are later than this.",
        ),
    ] = 30,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Show until when the merged topics are complete, and which datacenter holds them back.

    The strict answer waits for all datacenters. The fast one continues without late ones and names
    them.
    """
    from topology.deployment.deployment import read_deployment
    from topology.problems import DeployError
    from topology.status.reports import fetch_completeness
    from topology.supervisor.control_client import SupervisorUnreachable, supervisor_status

    state = find_deployment(deployment, state_dir)
    try:
        running = read_deployment(state)
        report = supervisor_status(state.socket_path)
    except DeployError as error:
        fail(str(error), error.details)
    except SupervisorUnreachable as error:
        fail(f"the deployment does not run: {error}")
    query = {"late_ms": late * 1000} | ({} if topic is None else {"topic": topic})
    found = fetch_completeness(running, report, f"?{urlencode(query)}")
    if not found:
        fail(f"{running.name} has no aggregate that runs")
    if all(each is None for each in found.values()):
        fail("no aggregator answers" + ("" if topic is None else f" for a topic {topic!r}"))
    if output is Output.json:
        answers = [{**(each or {}), "aggregate": name} for name, each in found.items()]
        print_json({"aggregates": answers})
        return
    for name, document in found.items():
        _print(name, document)


def _print(aggregate: str, document: Mapping[str, Any] | None) -> None:
    from topology.cli.show import plain_console, plain_table
    from topology.status.completeness import (
        answer_words,
        holder_words,
        sentence,
        summary,
        time_text,
    )

    console = plain_console()
    console.print(sentence(summary(aggregate, document)), markup=False)
    if document is None:
        return
    fast = document["fast"]
    console.print(f"without late datacenters: {answer_words(fast)}", markup=False)
    for missing in fast["missing"]:
        words = holder_words(missing).removeprefix("held back by ")
        console.print(f"  missing: {words}", markup=False)
    table = plain_table("topic", "datacenter", "complete through", "state", "gaps", "held back by")
    for topic in document["topics"]:
        for part in topic["datacenters"]:
            holder = part["held_back_by"]
            table.add_row(
                topic["topic"],
                part["datacenter"],
                time_text(part["complete_through_ms"]),
                part["state"],
                str(part["gaps"]),
                "" if holder is None else holder_words(holder).removeprefix("held back by "),
            )
    console.print(table)
