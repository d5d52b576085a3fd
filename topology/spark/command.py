"""`heliograph spark ...`: its options, output and exit codes.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from topology.cli.data_commands import AggregateOption, running_aggregate
from topology.cli.spark_options import (
    ConfOption,
    DecodingOption,
    MasterOption,
    read_decoding,
    spark_conf,
)
from topology.problems import unknown_name
from topology.spark.compaction import compact, compacting_of, table_identifier
from topology.spark.following import followed
from topology.spark.options import (
    BucketsOption,
    CheckpointOption,
    CompactOption,
    Format,
    GroupOption,
    LateOption,
    OnceOption,
    OpenRecordsMaxOption,
    RecordsMaxOption,
    SqlOption,
    TableOption,
    TombstoneOption,
    TriggerOption,
    UpsertBy,
    UpsertOption,
)

if TYPE_CHECKING:
    from spark_global.addresses import ClusterAddress
    from spark_global.iceberg.upserts.keys import Upsert
    from spark_global.materialize import Materialization
    from spark_global.views import Aggregate
    from topology.deployment.deployment import ClusterView

spark_app = typer.Typer(help="Global views as tables that others read.", no_args_is_help=True)
spark_app.command()(compact)


@spark_app.command()
def materialize(
    view: Annotated[
        str, typer.Argument(help="global_<topic>, or a question such as global_<topic>_windows.")
    ],
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH|CATALOG",
            help="Directory of the table, or a URI that Spark knows. Iceberg: directory of a "
            "SQLite catalogue, or the URI of a REST catalogue.",
        ),
    ],
    deployment: Which = None,
    to: Annotated[Format, typer.Option("--to", help="Format of the table.")] = Format.parquet,
    query: SqlOption = None,
    table: TableOption = None,
    checkpoint: CheckpointOption = None,
    upsert: UpsertOption = None,
    buckets: BucketsOption = 16,
    tombstone_hours: TombstoneOption = 24.0,
    aggregate: AggregateOption = None,
    trigger_seconds: TriggerOption = 10.0,
    once: OnceOption = False,
    late_seconds: LateOption = 600,
    records_max: RecordsMaxOption = None,
    open_records_max: OpenRecordsMaxOption = 50_000_000,
    compact_minutes: CompactOption = 60.0,
    group: GroupOption = None,
    decoding: DecodingOption = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    state_dir: StateDirOption = None,
) -> None:
    """Keep a view as a table, exactly once, until Ctrl-C. The same command goes on after a stop.

    Parquet: rows in PATH/datacenter=D/hour=YYYY-MM-DD-HH, the checkpoint in PATH/_checkpoint.
    Delta: the same, with one commit per batch. Iceberg: one table; questions have a checkpoint.
    """
    named = _iceberg_name(to, query, table, checkpoint=checkpoint, upsert=upsert)
    settings, declared = spark_conf(conf), read_decoding(decoding)
    running, cluster = running_aggregate(deployment, aggregate, state_dir)
    names, state = named or (cluster, view), find_deployment(deployment, state_dir)
    require_extra("spark" if to is Format.parquet else to)
    from spark_global.materialize import Materialization
    from topology.deployment.aggregate_view import aggregate_view

    wanted = Materialization(
        view=view,
        path=path,
        trigger_seconds=trigger_seconds,
        stops_at_end=once,
        late_seconds=late_seconds,
        records_max=records_max,
        open_records_max=open_records_max,
        group=group,
        decoding=declared,
        query=query,
    )
    how: dict[str, Any] = {"master": master, "conf": settings, "say": _say}
    how["compacting"] = compacting_of(to, path, names, 0 if upsert else compact_minutes)
    kept = {
        "identifier": names,
        "upsert": _latest_of(upsert, buckets),
        "tombstone_hours": tombstone_hours,
        "checkpoint": checkpoint,
    }
    with followed(aggregate_view(running, cluster), state) as there:
        problem = _keep(to, there, wanted, how, kept)
    if problem is not None:
        fail(problem)


def _keep(
    to: Format,
    there: Aggregate,
    wanted: Materialization,
    how: Mapping[str, Any],
    kept: Mapping[str, Any],
) -> str | None:
    """Keep a view in a format, Iceberg as `kept` says; return what went wrong."""
    if to is Format.iceberg:
        from spark_global.iceberg.keeping import KeptTable, run_keeping

        return run_keeping(there, KeptTable(rows=wanted, **kept), **how)
    from spark_global.materialize import run_materializing

    if to is Format.parquet:
        return run_materializing(there, wanted, **how)
    from spark_global.delta.keeping import REFUSALS, start_keeping

    return run_materializing(there, wanted, start=start_keeping, refusals=REFUSALS, **how)


def _say(line: str) -> None:
    """Say what a job has done, on standard error."""
    typer.echo(line, err=True)


def _latest_of(upsert: UpsertBy | None, buckets: int) -> Upsert | None:
    if upsert is None:
        return None
    from spark_global.iceberg.upserts import keys

    return keys.Upsert(keys.UpsertBy(upsert), buckets)


def _iceberg_name(
    to: Format, query: str | None, table: str | None, **options: object
) -> tuple[str, ...] | None:
    """Return the parts of --table; end the command if an option does not fit the format."""
    if query is not None and options.get("upsert") is not None:
        fail("--upsert compares keys as produced; it is not for --sql", code=EXIT_USAGE)
    for name, given in {"table": table, **options}.items():
        if given is not None and to is not Format.iceberg:
            fail(f"--{name} is for --to {Format.iceberg}", code=EXIT_USAGE)
    return None if table is None else table_identifier(table)


@spark_app.command()
def package(
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")] = Path(
        "heliograph.zip"
    ),
) -> None:
    """Write the archive that `spark-submit --py-files` gives to executors.

    It has the plain Python of the readers. What else the executors' Python needs is said.
    """
    require_extra("spark")
    from spark_global.shipping import (
        EXECUTOR_PACKAGES,
        MORE_EXECUTOR_PACKAGES,
        ArchiveError,
        write_archive,
    )

    try:
        modules = write_archive(out)
    except (ArchiveError, OSError) as error:
        fail(f"{out}: {error}")
    typer.echo(f"{out}: {modules} modules")
    typer.echo(f"executors also need: pip install {' '.join(EXECUTOR_PACKAGES)}")
    for what, packages in MORE_EXECUTOR_PACKAGES.items():
        typer.echo(f"for {what}: {' '.join(packages)}")


@spark_app.command()
def serve(
    view: Annotated[
        str, typer.Argument(help="global_<topic>, or a question such as global_<topic>_windows.")
    ],
    to: Annotated[str, typer.Option("--to", metavar="CLUSTER:TOPIC", help="Topic to write to.")],
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", help="Directory or URI of the query's checkpoint.")
    ],
    deployment: Which = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Name of the positions in the cluster; default: the topic."),
    ] = None,
    query: SqlOption = None,
    lanes: Annotated[
        int, typer.Option("--lanes", min=1, help="Transactions per batch, for a new name.")
    ] = 4,
    aggregate: AggregateOption = None,
    trigger_seconds: TriggerOption = 10.0,
    once: OnceOption = False,
    late_seconds: LateOption = 600,
    records_max: RecordsMaxOption = 100_000,
    group: GroupOption = None,
    decoding: DecodingOption = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    state_dir: StateDirOption = None,
) -> None:
    """Write a view to a topic, each row once, until Ctrl-C. The same command goes on after a stop.

    Records of global_<topic> are as produced, with headers that name their origin. Other rows are
    JSON. Readers with isolation level read_committed see each of them once.
    """
    target, colon, topic = to.partition(":")
    if not (target and colon and topic):
        fail(f"--to {to!r} names no topic; write CLUSTER:TOPIC", code=EXIT_USAGE)
    settings, declared = spark_conf(conf), read_decoding(decoding)
    running, cluster = running_aggregate(deployment, aggregate, state_dir)
    known = [each.name for each in running.clusters]
    if target not in known:
        fail(f"{running.name}: {unknown_name('cluster', target, known)}", code=EXIT_USAGE)
    require_extra("serve")
    from spark_global.materialize import Materialization
    from spark_global.serving.lanes import ServedTopic
    from spark_global.serving.serving import Serving, run_serving
    from topology.deployment.aggregate_view import aggregate_view

    there = running.cluster(target)
    wanted = Serving(
        rows=Materialization(
            view=view,
            path=checkpoint,
            trigger_seconds=trigger_seconds,
            stops_at_end=once,
            late_seconds=late_seconds,
            records_max=records_max,
            group=group,
            decoding=declared,
            query=query,
        ),
        target=ServedTopic(cluster=_address(there), topic=topic, name=name or topic),
        lanes=lanes,
    )
    state = find_deployment(deployment, state_dir)
    with followed(aggregate_view(running, cluster), state) as read:
        problem = run_serving(read, wanted, master=master, conf=settings, say=_say)
    if problem is not None:
        fail(problem)


@spark_app.command("move-table")
def move_table(
    catalogue: Annotated[
        str, typer.Argument(metavar="CATALOG", help="As for `materialize --to iceberg`.")
    ],
    table: Annotated[str, typer.Option("--table", metavar="NAMESPACE.NAME", help="Iceberg table.")],
    to: Annotated[str, typer.Option("--to", help="The aggregate that the table is to follow.")],
    deployment: Which = None,
    aggregate: AggregateOption = None,
    wait_seconds: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait for links that are behind.")
    ] = 60.0,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Let an Iceberg table follow another aggregate, with no record twice and none left out.

    Its writer stops at its next commit. Start `materialize` on the other aggregate then, with the
    same --table.
    """
    identifier = table_identifier(table)
    here, there = _two_clusters(deployment, aggregate, to, state_dir)[1]
    require_extra("iceberg")
    from spark_global.iceberg import moving

    try:
        moving.move_table(catalogue, identifier, here=here, to=there, wait_seconds=wait_seconds)
    except moving.REFUSALS as error:
        fail(f"table {table}: {error}")
    if output is Output.json:
        print_json({"table": table, "follows": to})
        return
    typer.echo(f"{table} follows {to}; start `materialize` there with --table {table}")


@spark_app.command("translate-checkpoint")
def translate_checkpoint(
    old: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="Checkpoint of the query.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Directory to create.")],
    to: Annotated[
        str, typer.Option("--to", help="Another aggregate, or the source of the query's topics.")
    ],
    deployment: Which = None,
    aggregate: AggregateOption = None,
    output: OutputOption = Output.human,
    state_dir: StateDirOption = None,
) -> None:
    """Copy the checkpoint of a stopped query, for another cluster to go on from.

    The query reads no record twice there and leaves none out, or the command says why not. The
    checkpoint itself is not changed. Both lie on this machine.
    """
    is_source, (here, there) = _two_clusters(deployment, aggregate, to, state_dir)
    require_extra("spark")
    from local_cluster.wire.errors import KafkaError
    from spark_global.streaming.moving import move_checkpoint
    from spark_global.streaming.positions import CheckpointError

    moving = move_checkpoint(old, new, here=here, to=there, is_source=is_source)
    try:
        batches = asyncio.run(moving)
    except (CheckpointError, KafkaError, OSError) as error:
        fail(f"{old}: {error}")
    if output is Output.json:
        print_json({"checkpoint": str(new), "positions_of": to, "batches": batches})
        return
    numbers = ", ".join(map(str, batches))
    typer.echo(f"{new}: positions of batch {numbers} are those of {to}")


def _two_clusters(
    deployment: str | None, aggregate: str | None, to: str, state_dir: Path | None
) -> tuple[bool, tuple[ClusterAddress, ClusterAddress]]:
    """Return whether `to` is a source of the aggregate, and the addresses of both."""
    running, cluster = running_aggregate(deployment, aggregate, state_dir)
    known = [each.name for each in running.clusters if each.name != cluster]
    if to not in known:
        fail(f"{running.name}: {unknown_name('cluster', to, known)}", code=EXIT_USAGE)
    here, there = (_address(running.cluster(name)) for name in (cluster, to))
    is_source = any(link.source == to and link.target == cluster for link in running.links)
    return is_source, (here, there)


def _address(cluster: ClusterView) -> ClusterAddress:
    """Return where Spark reaches a cluster, and as whom."""
    from spark_global.addresses import ClusterAddress

    return ClusterAddress(cluster.bootstrap, cluster.spark_security or cluster.security)


@spark_app.command("archive-classes")
def archive_classes(output: OutputOption = Output.human) -> None:
    """Let later commands start Spark sooner: keep the classes that its JVM loads.

    The archive is in the user's cache directory, of some 190 MB. Make it again after an update of
    Java or PySpark.
    """
    require_extra("spark")
    from spark_global.jvm.archiving import make_archive
    from spark_global.session import SparkStartError

    try:
        archive = make_archive()
    except (OSError, SparkStartError) as error:
        fail(str(error))
    if output is Output.json:
        print_json({"archive": str(archive), "size_bytes": archive.stat().st_size})
        return
    typer.echo(f"{archive}: {archive.stat().st_size / 1e6:.0f} MB")
