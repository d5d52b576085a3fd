"""`heliograph why`: its options, output and exit codes.

The command imports what it needs when it runs, to keep start-up short.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from topology.admin.output import Format, FormatOption, emit, print_lines
from topology.cli.command_line import (
    EXIT_UNHEALTHY,
    EXIT_USAGE,
    DeploymentOption,
    StateDirOption,
    fail,
    find_deployment,
)
from topology.cli.completion import link_names

if TYPE_CHECKING:
    from topology.deployment.deployment import Deployment, LinkView
    from topology.why.facts import Cause

RECORD: Final = re.compile(r"([^:]+):(\d+):(\d+)")


class Kind(enum.StrEnum):
    """What a name names."""

    link = "link"
    topic = "topic"
    group = "group"
    record = "record"


def why(
    name: Annotated[
        str,
        typer.Argument(
            metavar="LINK|TOPIC|GROUP|RECORD",
            help="A record is TOPIC:PARTITION:OFFSET of the source. Topics are those of sources, or"
            " their copies.",
        ),
    ],
    kind: Annotated[
        Kind | None,
        typer.Option(
            "--kind",
            help="Default: a link of this name, else a group that only is a group, else a topic.",
            show_default=False,
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            "--link", help="Only this link; default: every link.", autocompletion=link_names
        ),
    ] = None,
    deployment: DeploymentOption = None,
    output: FormatOption = Format.human,
    state_dir: StateDirOption = None,
) -> None:
    """Say why something is not copied, behind, refused or doubted, and what to do about it.

    Exits with 0 if no link has a fault there, else with 4.
    """
    from topology.deployment.deployment import read_deployment
    from topology.problems import DeployError
    from topology.status.observe import current_status

    try:
        state = find_deployment(deployment, state_dir)
        running = read_deployment(state)
        status = current_status(state)
    except DeployError as error:
        fail(str(error), error.details)
    links = _links(running, link)
    try:
        document = _explain(running, status, links, name, kind)
    except DeployError as error:
        fail(str(error), error.details)
    emit(output, document, lambda shown: print_lines(answer_lines(shown)))
    if not document["is_well"]:
        raise typer.Exit(EXIT_UNHEALTHY)


def _links(running: Deployment, link: str | None) -> Sequence[LinkView]:
    if not running.links:
        fail(f"deployment {running.name} has no links", code=EXIT_USAGE)
    if link is None:
        return running.links
    found = [each for each in running.links if each.name == link]
    if not found:
        from topology.problems import unknown_name

        known = [each.name for each in running.links]
        fail(f"{running.name}: {unknown_name('link', link, known)}", code=EXIT_USAGE)
    return found


def _explain(
    running: Deployment,
    status: dict[str, Any],
    links: Sequence[LinkView],
    name: str,
    kind: Kind | None,
) -> dict[str, Any]:
    from topology.why.collect import Question, collect
    from topology.why.group_causes import explain_group
    from topology.why.link_causes import explain_link
    from topology.why.record_causes import explain_record
    from topology.why.topic_causes import explain_topic

    named = [each for each in links if each.name == name]
    place = RECORD.fullmatch(name)
    if kind is Kind.record and place is None:
        fail(f"{name!r} is not TOPIC:PARTITION:OFFSET", code=EXIT_USAGE)
    if kind is None and place is not None:
        kind = Kind.record
    if kind is Kind.link or (kind is None and named):
        kind, links = Kind.link, named or _links(running, name)
    record = None
    if kind is Kind.record and place is not None:
        record = (place[1], int(place[2]), int(place[3]))
    question = Question(
        topics=frozenset() if kind in (Kind.link, Kind.group) else frozenset({name}),
        group=name if kind in (None, Kind.group) else None,
        record=record,
    )
    facts = collect(running, status, links, question)
    if kind is None:
        is_topic = any(name in side.topics for each in facts for side in _sides(each.link))
        is_group = any(name in side.groups for each in facts for side in _sides(each.link))
        kind = Kind.group if is_group and not is_topic else Kind.topic
    answers = []
    for each in facts:
        if kind is Kind.link:
            causes = explain_link(each.link)
        elif kind is Kind.group:
            causes = explain_group(each.link, name)
        elif each.record is not None:
            causes = explain_record(each.link, each.record)
        else:
            causes = explain_topic(each.link, record[0] if record else name)
        answers.append(answer_of(each.link.name, causes))
    return why_document(name, kind.value, answers)


def _sides(link: Any) -> tuple[Any, Any]:
    return link.source, link.target


def answer_of(link: str, causes: Sequence[Cause]) -> dict[str, Any]:
    """Return the answer about one link, as in the JSON."""
    return {
        "link": link,
        "is_well": not any(cause.is_fault for cause in causes),
        "causes": [cause._asdict() for cause in causes],
    }


NOT_MEANT: Final = frozenset({"not_included", "excluded", "unknown_topic", "came_from_target"})
"""Codes of links that another link makes up for: a topic needs one link, not all of them."""


def why_document(name: str, kind: str, answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return all answers. A topic that one link copies is well, if the others do not mean it."""
    copied = any(each["is_well"] for each in answers)
    is_well = all(
        each["is_well"] or (copied and each["causes"][0]["code"] in NOT_MEANT) for each in answers
    )
    return {"name": name, "kind": kind, "is_well": is_well, "answers": list(answers)}


def answer_lines(document: dict[str, Any]) -> list[str]:
    """Return the lines for people: each cause, and what to do about it."""
    lines = []
    for each in document["answers"]:
        lines.append(f"{document['kind']} {document['name']}, link {each['link']}:")
        for cause in each["causes"]:
            lines.append(f"  {cause['sentence']}")
            if cause["remedy"]:
                lines.append(f"      {cause['remedy']}")
        if not each["causes"]:
            lines.append("  nothing is wrong")
    return lines
