"""`heliograph trace`: its options and output.

The command imports what it needs when it runs, to keep start-up short.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from topology.admin.output import Format, FormatOption, emit
from topology.cli.command_line import (
    EXIT_USAGE,
    DeploymentOption,
    StateDirOption,
    fail,
    find_deployment,
)
from topology.cli.completion import cluster_names

if TYPE_CHECKING:
    from topology.tracing.facts import WayFacts
    from topology.tracing.trace_ids import TraceIds

RECORD: Final = re.compile(r"([^:]+):(\d{1,9}):(\d{1,18})")


def trace(
    record: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC:PARTITION:OFFSET", help="A record, or its copy on a target of links."
        ),
    ],
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            "-c",
            help="The cluster with this place; default: the only one of a link with this topic.",
            autocompletion=cluster_names,
        ),
    ] = None,
    export: Annotated[
        bool,
        typer.Option(
            "--export",
            help="Send the way as OpenTelemetry spans, to where the OTEL_* variables say.",
        ),
    ] = False,
    deployment: DeploymentOption = None,
    output: FormatOption = Format.human,
    state_dir: StateDirOption = None,
) -> None:
    """Show the way of one record: produced, committed, copied by each link, complete, audited."""
    from topology.deployment.deployment import read_deployment
    from topology.problems import DeployError, unknown_name
    from topology.supervisor.control_client import SupervisorUnreachable, supervisor_status
    from topology.tracing.collect import collect_way
    from topology.tracing.show import way_document
    from topology.tracing.steps import way_steps

    place = RECORD.fullmatch(record)
    if place is None:
        fail(f"{record!r} is not TOPIC:PARTITION:OFFSET", code=EXIT_USAGE)
    try:
        state = find_deployment(deployment, state_dir)
        running = read_deployment(state)
        if not running.links:
            fail(f"deployment {running.name} has no links", code=EXIT_USAGE)
        names = [each.name for each in running.clusters]
        if cluster is not None and cluster not in names:
            fail(f"{running.name}: {unknown_name('cluster', cluster, names)}", code=EXIT_USAGE)
        try:
            status: dict[str, Any] | None = supervisor_status(state.socket_path)
        except SupervisorUnreachable:
            status = None  # the clusters may run nevertheless
        at = int(place[2]), int(place[3])
        facts = collect_way(running, status, place[1], at, cluster)
        _check_found(facts)
        steps, ids = way_steps(facts), _ids(facts)
        document = way_document(facts, steps, ids)
        if export:
            from topology.tracing.spans import export as send
            from topology.tracing.spans import record_spans

            spans = record_spans(facts, steps, ids)
            if not spans:
                fail("no time of the record is known, so it has no spans")
            send(spans)
            document["exported_spans"] = len(spans)
    except DeployError as error:
        fail(str(error), error.details)
    emit(output, document, _print)


def _check_found(facts: WayFacts) -> None:
    """End the command if no log and no map knows the record."""
    from topology.why.facts import Fate

    fates = [each.fate.fate for each in facts.copies if each.fate is not None]
    if facts.origin.stored is None and Fate.COPIED not in fates:
        details = [f"link {each.link}: {each.problem}" for each in facts.copies if each.problem]
        fail(f"{facts.asked}: {facts.origin.missing}", [*details, *facts.remarks])


def _ids(facts: WayFacts) -> TraceIds:
    """Return the ids, the same ones whether the source answers or not."""
    import uuid

    from topology.tracing.trace_ids import RecordIdentity, trace_ids

    origin, place = facts.origin, facts.origin.place
    direct = [each for each in facts.copies if each.source == place]
    cluster_ids = [origin.cluster_id, *(each.source_cluster_id for each in direct)]
    topic_ids = [origin.topic_id, *(each.source_topic_id for each in direct)]
    identity = RecordIdentity(
        next(filter(None, cluster_ids), ""),
        next(filter(None, topic_ids), uuid.UUID(int=0)),
        *place[1:],
    )
    logs = [origin, *(each.log for each in facts.copies)]
    stored = [each.stored for each in logs if each is not None and each.stored is not None]
    return trace_ids(identity, stored[0].record.headers if stored else ())


def _print(document: dict[str, Any]) -> None:
    from topology.admin.output import print_lines, print_table
    from topology.tracing.show import head_lines, table_rows

    print_lines(head_lines(document))
    columns = [(name, name) for name in ("step", "where", "place", "time", "clock", "state")]
    rows = table_rows(document)
    print_table(columns, rows, nothing="nothing is known")
    print_lines(f"  {row['step']} {row['where']}: {row['what']}" for row in rows if row["what"])
    print_lines(document["remarks"])
    if document["exported_spans"] is not None:
        print_lines([f"{document['exported_spans']} spans exported"])
