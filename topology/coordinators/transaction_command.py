"""`heliograph transaction ...`: transactions, their producers, and the abort of a hanging one.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topology.admin.carry_out import DryRunOption, YesOption, carry_out
from topology.admin.cluster_choice import ClusterChoice, on_cluster
from topology.admin.output import print_lines, print_table
from topology.cli.completion import topic_names

if TYPE_CHECKING:
    from local_cluster.client.client import KafkaClient
    from local_cluster.wire.errors import KafkaError
    from topology.admin.changes import Change

transaction_app = typer.Typer(
    no_args_is_help=True, help="Transactions: list, describe, producers, hanging, abort."
)
Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="Name of the topic.", autocompletion=topic_names)
]
Partition = Annotated[int, typer.Argument(metavar="PARTITION", min=0, help="Its partition.")]
LIST_COLUMNS = (
    ("transactional id", "transactional_id"),
    ("state", "state"),
    ("producer id", "producer_id"),
    ("coordinator", "coordinator"),
)
PRODUCER_COLUMNS = (
    ("producer id", "producer_id"),
    ("epoch", "producer_epoch"),
    ("last sequence", "last_sequence"),
    ("last record", "last_timestamp"),
    ("transaction from", "transaction_start"),
)
HANGING_COLUMNS = (
    ("topic", "topic"),
    ("partition", "partition"),
    *PRODUCER_COLUMNS,
    ("open s", "open_seconds"),
)


@transaction_app.command("list")
@on_cluster
def list_transactions(
    choice: ClusterChoice,
    state: Annotated[
        str | None, typer.Option("--state", help="Only in this state, such as Ongoing.")
    ] = None,
) -> None:
    """List transactional ids with their states."""

    async def read(client: KafkaClient) -> dict[str, Any]:
        from topology.coordinators.listing import in_state
        from topology.coordinators.transaction_reading import list_all

        return {"transactions": in_state(await list_all(client), state)}

    choice.show(
        read,
        lambda found: print_table(
            LIST_COLUMNS, found["transactions"], nothing="there are no transactions"
        ),
    )


@transaction_app.command("describe")
@on_cluster
def describe_transaction(
    choice: ClusterChoice,
    transactional_id: Annotated[str, typer.Argument(metavar="TRANSACTIONAL_ID")],
) -> None:
    """Show the state of a transactional id, its producer, and the partitions that it wrote to."""

    async def read(client: KafkaClient) -> dict[str, Any]:
        from topology.coordinators.transaction_reading import describe

        return await describe(client, transactional_id)

    def show(found: dict[str, Any]) -> None:
        print_lines(
            [
                f"transactional id {found['transactional_id']}: {found['state']}",
                f"producer id {found['producer_id']}, epoch {found['producer_epoch']},"
                f" coordinator {found['coordinator']}",
                f"timeout {found['timeout_ms']} ms, started {found['started'] or '-'}",
                f"partitions: {', '.join(found['partitions']) or '-'}",
            ]
        )

    choice.show(read, show)


@transaction_app.command("producers")
@on_cluster
def show_producers(choice: ClusterChoice, topic: Topic, partition: Partition) -> None:
    """Show the producers of a partition, and where their open transactions start."""

    async def read(client: KafkaClient) -> dict[str, Any]:
        from topology.coordinators.transaction_reading import producers_of

        found = await producers_of(client, topic, partition)
        return {"topic": topic, "partition": partition, "producers": found}

    choice.show(
        read,
        lambda found: print_table(
            PRODUCER_COLUMNS, found["producers"], nothing="it knows no producer"
        ),
    )


@transaction_app.command("hanging")
@on_cluster
def show_hanging(
    choice: ClusterChoice,
    older: Annotated[
        int,
        typer.Option("--older", metavar="SECONDS", min=0, help="Least time since the last record."),
    ] = 900,
) -> None:
    """Find transactions that are open in a partition, and that no coordinator knows (KIP-664).

    Such a transaction holds back every read_committed consumer of the partition.
    """

    async def read(client: KafkaClient) -> dict[str, Any]:
        from topology.coordinators.transaction_reading import find_hanging

        now_ms = time.time_ns() // 1_000_000
        return {"hanging": await find_hanging(client, older_ms=older * 1000, now_ms=now_ms)}

    choice.show(
        read,
        lambda found: print_table(
            HANGING_COLUMNS, found["hanging"], nothing="no transaction hangs"
        ),
    )


@transaction_app.command("abort")
@on_cluster
def abort_transaction(
    choice: ClusterChoice,
    topic: Topic,
    partition: Partition,
    start_offset: Annotated[
        int, typer.Option("--start-offset", min=0, help="First offset of the transaction.")
    ],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Abort a hanging transaction in one partition. `hanging` shows its first offset."""
    found: list[dict[str, Any]] = []

    async def plan(client: KafkaClient) -> Sequence[Change]:
        from topology.admin.changes import Change
        from topology.coordinators.transaction_reading import open_producer

        found.append(await open_producer(client, topic, partition, start_offset))
        return [
            Change(
                action="abort",
                kind="transaction of",
                name=f"{topic}-{partition}",
                detail=f"producer id {found[0]['producer_id']}, from offset {start_offset}",
            )
        ]

    async def apply(client: KafkaClient, _: Sequence[Change]) -> Sequence[KafkaError | None]:
        from topology.coordinators.transaction_reading import write_abort

        return [await write_abort(client, topic, partition, found[0])]

    carry_out(
        choice,
        plan,
        apply,
        dry_run=dry_run,
        yes=yes,
        destroys="hides the records of the transaction from read_committed consumers",
    )
