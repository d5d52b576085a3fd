"""`heliograph gaps`, `sql` and `demo`: the data of the aggregates.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    require_extra,
)
from topology.cli.spark_options import (
    ConfOption,
    DecodingOption,
    MasterOption,
    read_decoding,
    spark_conf,
)

if TYPE_CHECKING:
    from spark_global.cut.past import Past
    from spark_global.views import Aggregate
    from topology.deployment.deployment import Deployment

AggregateOption = Annotated[
    str | None, typer.Option("--aggregate", help="Aggregate cluster; default: the only one.")
]


def gaps(
    deployment: Which = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """List the source offsets that links did not copy, with the reason."""
    from topology.deployment.deployment import read_deployment
    from topology.mirror.gaps import GapsUnreadable, read_gaps
    from topology.problems import DeployError

    try:
        found = read_gaps(read_deployment(find_deployment(deployment, state_dir)))
    except DeployError as error:
        fail(str(error), error.details)
    except GapsUnreadable as error:
        fail(str(error))
    if output is Output.json:
        print_json({"gaps": found})
    else:
        from topology.cli.show import print_gaps

        print_gaps(found)


def _utc(text: str) -> datetime:
    """Read a time in ISO 8601. Without a zone it is in UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no time; one is 2026-11-27T22:15:00Z") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _milliseconds(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


AsOfOption = Annotated[
    datetime | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        parser=_utc,
        help="Answer as of this time (ISO 8601, UTC by default).",
    ),
]
SinceOption = Annotated[
    datetime | None,
    typer.Option(
        "--since", metavar="TIME", parser=_utc, help="With --as-of: only records since this time."
    ),
]


QueryArgument = Annotated[
    str, typer.Argument(help="SQL over the views global_<topic>; `-` reads queries from stdin.")
]
CountOption = Annotated[
    bool,
    typer.Option("--count", help="Say how many rows are left out; runs the query once more."),
]
IdleOption = Annotated[
    float,
    typer.Option(
        "--idle", metavar="MINUTES", min=0.01, help="With `-`: end after so long without input."
    ),
]

ConnectorJarsOption = Annotated[
    str | None,
    typer.Option(
        "--connector-jars",
        metavar="DIR|maven",
        help="Read records by Spark's Kafka connector, from these jars or resolved by Spark.",
    ),
]


class Engine(enum.StrEnum):
    """What answers a query."""

    spark = "spark"
    duckdb = "duckdb"


AllowMissingOption = Annotated[
    bool,
    typer.Option(
        "--allow-missing", help="With --as-of: leave out partitions without an exact answer."
    ),
]
EngineOption = Annotated[
    Engine, typer.Option("--engine", help="duckdb: on the Iceberg tables of --catalog.")
]
CatalogueOption = Annotated[
    str | None, typer.Option("--catalog", help="With --engine duckdb: as for `spark materialize`.")
]


def sql(
    query: QueryArgument = "-",
    deployment: Which = None,
    aggregate: AggregateOption = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", metavar="N", min=1, help="Rows to show; all of them are held in memory."
        ),
    ] = 10_000,
    count: CountOption = False,
    idle_minutes: IdleOption = 60.0,
    as_of: AsOfOption = None,
    since: SinceOption = None,
    allow_missing: AllowMissingOption = False,
    decoding: DecodingOption = None,
    engine: EngineOption = Engine.spark,
    catalogue: CatalogueOption = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    connector_jars: ConnectorJarsOption = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Run SQL over the global views of a running deployment, or over tables that are kept.

    With --as-of each partition is read to where its source ended at that time, rounded down to a
    sample of its mirror; standard error or the JSON says to which. The rows are the same whenever
    it is asked, or the answer is refused.

    If the result has more rows than --limit, standard error says so; with -o json, `is_cut`,
    `rows_left_out_min` and, with --count, `rows_left_out` say so.

    Without a query there is a prompt: one session answers all queries, so only the first one waits
    for Spark to start. A query ends with a semicolon at the end of a line.
    """
    _check_times(as_of, since, allow_missing)
    settings = spark_conf(conf)
    if (engine is Engine.duckdb) != (catalogue is not None):
        fail("--engine duckdb and --catalog belong together", code=EXIT_USAGE)
    if catalogue is not None:
        of_spark = {"--as-of": as_of, "--connector-jars": connector_jars, "--decoding": decoding}
        refused = {**of_spark, "-": query == "-" or None}
        raise typer.Exit(_ask_duckdb(query, catalogue, output, limit, refused))
    declared = read_decoding(decoding)
    running, cluster = running_aggregate(deployment, aggregate, state_dir)
    require_extra("spark")
    from spark_global.prompt import is_typed, read_questions
    from spark_global.sql import run_sql
    from topology.deployment.aggregate_view import aggregate_view

    view = aggregate_view(running, cluster)
    past = None if as_of is None else _past(view, as_of, since, allow_missing)
    code = run_sql(
        read_questions(idle_minutes * 60) if query == "-" else query,
        aggregate=view,
        output=output.value,
        limit=limit,
        counts_all=count,
        past=past,
        decoding=declared,
        master=master,
        conf=settings,
        connector_jars=connector_jars,
        goes_on=query == "-" and is_typed(),
    )
    raise typer.Exit(code)


def _ask_duckdb(
    query: str, catalogue: str, output: Output, limit: int, refused: Mapping[str, object]
) -> int:
    """Run a query without Spark; end the command if an option of `refused` is given."""
    for name, given in refused.items():
        if given is not None:
            fail(f"{name} is for --engine spark", code=EXIT_USAGE)
    require_extra("duckdb")
    from spark_global.without_pandas import without_pandas

    without_pandas()
    from spark_global.iceberg.querying import run_duckdb

    return run_duckdb(query, catalogue=catalogue, output=output.value, limit=limit)


def _check_times(as_of: datetime | None, since: datetime | None, allow_missing: bool) -> None:
    """End the command if the options of a past do not fit."""
    if as_of is None and (since is not None or allow_missing):
        fail("--since and --allow-missing need --as-of", code=EXIT_USAGE)
    if as_of is not None and since is not None and since >= as_of:
        fail("--since must be before --as-of", code=EXIT_USAGE)


def _past(view: Aggregate, as_of: datetime, since: datetime | None, allow_missing: bool) -> Past:
    from spark_global.views import read_past

    since_ms = None if since is None else _milliseconds(since)
    return read_past(view, _milliseconds(as_of), since_ms, allow_missing=allow_missing)


def running_aggregate(
    which: str | None, aggregate: str | None, state_dir: Path | None
) -> tuple[Deployment, str]:
    """Return a running deployment and the aggregate to read; end the command if there is none."""
    from topology.deployment.deployment import read_deployment
    from topology.problems import DeployError
    from topology.status.observe import current_status

    state = find_deployment(which, state_dir)
    try:
        running = read_deployment(state)
        status = current_status(state)
    except DeployError as error:
        fail(str(error), error.details)
    if status["state"] == "stopped":
        fail(f"deployment {running.name} is not running", ["start it with `heliograph up`"])
    cluster = _aggregate(running, aggregate)
    why_silent = next(each["reason"] for each in status["clusters"] if each["name"] == cluster)
    if why_silent is not None:
        fail(why_silent, ["see `heliograph status`"])
    return running, cluster


def _aggregate(deployment: Deployment, name: str | None) -> str:
    """Return the name of the cluster that the global views read."""
    targets = {link.target for link in deployment.links}
    names = [
        each.name
        for each in deployment.clusters
        if each.kind == "aggregate" or each.name in targets
    ]
    if name is not None:
        if name not in names:
            from topology.problems import unknown_name

            fail(f"{deployment.name}: {unknown_name('aggregate', name, names)}", code=EXIT_USAGE)
        return name
    if len(names) != 1:
        known = ", ".join(names) or "none"
        fail(f"name the --aggregate of {deployment.name}; there are: {known}", code=EXIT_USAGE)
    return names[0]


def demo(
    out: Annotated[
        Path, typer.Option("--out", help="Directory for the result tables, as Parquet.")
    ] = Path("heliograph-demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Leave the deployment running.")] = False,
    topology: Annotated[
        Path | None,
        typer.Option(
            "--topology", help="Topology file; default: the quickstart.", show_default=False
        ),
    ] = None,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="Over TLS and SCRAM with ACLs: configs/secure.yaml, with secrets of its own.",
        ),
    ] = False,
    master: Annotated[
        str,
        typer.Option(
            "--master",
            help="Spark master whose workers reach the brokers: on this machine, unless a "
            "--topology has other addresses.",
        ),
    ] = "local[*]",
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Run the whole system on real input: the departures of 2013 from New York's airports."""
    require_extra("demo")
    require_extra("embedded")
    if secure and topology is not None:
        fail("--secure has a topology of its own; name it or a --topology", code=EXIT_USAGE)
    from topology.demo.run import run_demo
    from topology.file.load import shipped_topology

    code = run_demo(
        out=out,
        keep=keep,
        output=output.value,
        state_dir=state_dir,
        topology=topology or shipped_topology("secure" if secure else "quickstart"),
        with_own_secrets=secure,
        master=master,
    )
    raise typer.Exit(code)
