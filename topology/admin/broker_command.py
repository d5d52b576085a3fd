"""`heliograph broker ...`: brokers with what they hold, their log directories, leader elections.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topology.admin.carry_out import DryRunOption, YesOption, carry_out
from topology.admin.cluster_choice import ClusterChoice, on_cluster
from topology.admin.output import print_lines, print_table
from topology.cli.command_line import EXIT_USAGE, fail

if TYPE_CHECKING:
    from local_cluster.client.client import KafkaClient
    from local_cluster.client.model import TopicPartition
    from local_cluster.wire.errors import KafkaError
    from topology.admin.changes import Change

broker_app = typer.Typer(
    no_args_is_help=True, help="Brokers: list, describe log directories, elect leaders."
)
LIST_COLUMNS = (
    ("broker", "id"),
    ("host", "host"),
    ("port", "port"),
    ("rack", "rack"),
    ("controller", "is_controller"),
    ("leads", "leaders"),
    ("replicas", "replicas"),
    ("out of sync", "out_of_sync"),
    ("bytes", "size_bytes"),
)
LOG_DIR_COLUMNS = (
    ("log directory", "log_dir"),
    ("state", "error"),
    ("replicas", "replicas"),
    ("bytes", "size_bytes"),
    ("disk", "total_bytes"),
    ("free", "usable_bytes"),
)


@broker_app.command("list")
@on_cluster
def list_brokers(choice: ClusterChoice) -> None:
    """List brokers with the replicas that they hold and lead."""

    async def read(client: KafkaClient) -> dict[str, Any]:
        from topology.admin.broker_reading import read_brokers

        return await read_brokers(client)

    choice.show(read, _print_brokers)


def _print_brokers(document: dict[str, Any]) -> None:
    print_lines([f"cluster {document['cluster_id'] or '-'}"])
    print_table(LIST_COLUMNS, document["brokers"], nothing="there are no brokers")
    if document["missing"]:
        listed = ", ".join(map(str, document["missing"]))
        print_lines([f"not registered, but holding replicas: broker {listed}"])


@broker_app.command("describe")
@on_cluster
def describe_broker(
    choice: ClusterChoice,
    broker: Annotated[int, typer.Argument(metavar="BROKER_ID", help="Id of the broker.")],
) -> None:
    """Show the log directories of a broker, with sizes and errors."""

    async def read(client: KafkaClient) -> dict[str, Any]:
        from topology.admin.cluster_reading import log_dirs
        from topology.problems import DeployError

        brokers = (await client.metadata([])).brokers
        if broker not in brokers:
            known = ", ".join(map(str, sorted(brokers)))
            raise DeployError(f"no broker {broker} is registered; there are: {known}")
        directories, _ = await log_dirs(client, broker)
        at = brokers[broker]
        return {
            "id": broker,
            "host": at.host,
            "port": at.port,
            "rack": at.rack,
            "log_dirs": directories,
        }

    def show(document: dict[str, Any]) -> None:
        place = f"{document['host']}:{document['port']}"
        print_lines([f"broker {document['id']} at {place}, rack {document['rack'] or '-'}"])
        rows = [{**each, "error": each["error"] or "online"} for each in document["log_dirs"]]
        print_table(LOG_DIR_COLUMNS, rows, nothing="it has no log directory")

    choice.show(read, show)


@broker_app.command("elect-leaders")
@on_cluster
def elect_leaders(
    choice: ClusterChoice,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC[:PARTITIONS]...]",
            help="Such as orders:0,3-5; default: every partition that needs it.",
            show_default=False,
        ),
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Elect replicas out of sync where no leader is left."),
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Make the first replica of each partition its leader; or elect out of sync with --unclean."""
    from topology.admin.arguments import parse_partitions

    try:
        wanted = parse_partitions(topics) if topics else None
    except ValueError as error:
        fail(str(error), code=EXIT_USAGE)
    targets: list[TopicPartition] = []

    async def plan(client: KafkaClient) -> Sequence[Change]:
        from topology.admin.broker_reading import elections
        from topology.admin.changes import Change
        from topology.admin.places import chosen_partitions

        named = None if wanted is None else set(await chosen_partitions(client, wanted))
        found = elections((await client.metadata(None)).topics.values(), named, unclean=unclean)
        targets.extend(at for at, _, _ in found)
        return [
            Change(
                action="elect",
                kind="leader of",
                name=str(at),
                detail=f"{'none' if before is None else before} -> "
                f"{'a replica out of sync' if after is None else after}",
            )
            for at, before, after in found
        ]

    async def apply(client: KafkaClient, _: Sequence[Change]) -> Sequence[KafkaError | None]:
        from topology.admin.broker_reading import elect

        results = await elect(client, targets, unclean=unclean)
        return [results.get(at) for at in targets]

    carry_out(
        choice,
        plan,
        apply,
        dry_run=dry_run,
        yes=yes,
        destroys="loses every record that the new leader lacks" if unclean else None,
    )
