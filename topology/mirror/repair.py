"""`heliograph mirror repair`: its options, output and exit codes.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from topology.cli.command_line import (
    EXIT_CHANGES,
    DeploymentOption,
    Output,
    OutputOption,
    StateDirOption,
    complain,
    fail,
    find_deployment,
    print_json,
)
from topology.cli.completion import link_names


class How(StrEnum):
    """The ways to repair, as in `mirror_maker.repair.plan.How`."""

    recopy = "recopy"
    fresh = "fresh"
    skip = "skip"


def repair(
    link: Annotated[
        str, typer.Argument(metavar="LINK", help="Name of the link.", autocompletion=link_names)
    ],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic of the source.")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0)],
    how: Annotated[
        How | None,
        typer.Option(
            "--how",
            help="recopy: copy again from the first wrong offset, to the end of the same copy;"
            " fresh: delete the whole copy and copy from the start; skip: leave the copy as it is,"
            " record what is wrong in the journal, and continue behind it.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what is wrong, and what could be done.")
    ] = False,
    deployment: DeploymentOption = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Repair the copy of a partition that differs from its source.

    Without --how the command changes nothing: it shows the ways to repair, and exits with 3 if
    something is wrong.
    """
    from topology.deployment.deployment import read_deployment
    from topology.mirror.worker_http import get, post
    from topology.problems import DeployError
    from topology.status.process_http import CallFailed

    at = {"topic": topic, "partition": partition}
    try:
        found = read_deployment(find_deployment(deployment, state_dir))
        if how is None or dry_run:
            document = get(found, link, "repair", **at)
        else:
            document = post(found, link, "repair", **at, how=how.value)
    except DeployError as error:
        fail(str(error), error.details)
    except CallFailed as error:
        fail(str(error))
    if output is Output.json:
        print_json(document)
    else:
        for line in describe(document, how if dry_run else None):
            typer.echo(line)
    if how is None and not dry_run and not document["is_well"]:
        complain(["nothing was changed: choose a way with --how"])
        raise typer.Exit(EXIT_CHANGES)


def describe(document: dict[str, Any], only: How | None = None) -> list[str]:
    """Return the worker's response as lines for people; with `only`, only that way."""
    name = f"{document['link']}: {document['topic']}-{document['partition']}"
    copy = f"{document['copy']}-{document['partition']}"
    if document["is_well"]:
        return [f"{name}: nothing is wrong in {copy}"]
    lines = [f"{name}: wrong in {copy}:"]
    if document["stop"] is not None:
        lines.append(f"  it cannot continue: {document['stop']}")
    lines += [_fault(fault) for fault in document["faults"]]
    if document["ordered"] is not None:
        (way,) = (each for each in document["ways"] if each["how"] == document["ordered"])
        lines.append(f"ordered: {document['ordered']}; the worker that copies it carries it out")
        lines += [f"  {effect}" for effect in way["effects"]]
        lines += [f"  journal: {entry['detail']}" for entry in document["entries"]]
        return lines
    for way in document["ways"]:
        if only is None or way["how"] == only.value:
            lines += _way(way)
    lines += [
        f"group {each['group']}: at target offset {each['target_offset']}, "
        f"source offset {each['source_offset']}"
        for each in document["groups"]
    ]
    return lines


def _fault(fault: dict[str, Any]) -> str:
    source = ""
    if fault["source_from"] is not None:
        source = f", source offsets {_range(fault['source_from'], fault['source_to'])}"
    target = _range(fault["target_from"], fault["target_to"])
    return f"  {fault['kind']} at target offsets {target}{source}: {fault['detail']}"


def _range(start: int, end: int) -> str:
    return str(start) if end <= start + 1 else f"{start}..{end - 1}"


def _way(way: dict[str, Any]) -> list[str]:
    if not way["is_possible"]:
        return [f"--how {way['how']}: not possible: {way['refusal']}"]
    again = way["copied_again"]
    lines = [f"--how {way['how']}:"]
    if again["source_to"] > again["source_from"]:
        about = "about " if again["is_estimate"] else ""
        records, size = again["records"], again["bytes"]
        lines.append(
            f"  copies again: {'an unknown number of' if records is None else records} records, "
            + ("an unknown number of bytes" if size is None else f"{about}{size} bytes")
        )
    for gap in way["given_up"]:
        offsets = _range(gap["source_from"], gap["source_to"])
        lines.append(f"  the copy will lack source offsets {offsets}")
    return [*lines, *(f"  {effect}" for effect in way["effects"])]
