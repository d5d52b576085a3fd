"""`heliograph topic ...`: its options and output.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topology.admin.carry_out import DryRunOption, YesOption, carry_out
from topology.admin.cluster_choice import ClusterChoice, on_cluster
from topology.admin.output import print_lines, print_table
from topology.cli.command_line import EXIT_USAGE, fail
from topology.cli.completion import topic_names

if TYPE_CHECKING:
    from local_cluster.client.client import KafkaClient
    from local_cluster.wire.errors import KafkaError
    from topology.admin.changes import Change

topic_app = typer.Typer(
    no_args_is_help=True, help="Topics: list, describe, create, alter, delete, trim."
)
Topics = Annotated[
    list[str],
    typer.Argument(metavar="TOPIC...", help="Names of topics.", autocompletion=topic_names),
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config", metavar="NAME=VALUE", help="A config; may be repeated.", show_default=False
    ),
]
RegexOption = Annotated[
    bool, typer.Option("--regex", help="TOPIC is a regular expression that matches whole names.")
]
BY_DEFAULT = -1
"""Leaves a number of a new topic to the cluster."""
LIST_COLUMNS = (
    ("topic", "name"),
    ("partitions", "partitions"),
    ("replication factor", "replication_factor"),
    ("under-replicated", "under_replicated"),
    ("offline", "offline"),
)
PARTITION_COLUMNS = (
    ("partition", "partition"),
    ("leader", "leader"),
    ("epoch", "leader_epoch"),
    ("replicas", "replicas"),
    ("isr", "isr"),
    ("start", "log_start_offset"),
    ("end", "end_offset"),
    ("bytes", "size_bytes"),
)


@topic_app.command("list")
@on_cluster
def list_topics(
    choice: ClusterChoice,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="[REGEX]", help="Only topics whose whole name matches.", show_default=False
        ),
    ] = None,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also topics of Kafka itself.")
    ] = False,
    unhealthy: Annotated[
        bool, typer.Option("--unhealthy", help="Only under-replicated and offline topics.")
    ] = False,
) -> None:
    """List topics."""
    matches = _compiled(pattern or ".*")

    async def read(client: KafkaClient) -> dict[str, Any]:
        from topology.admin.cluster_reading import topic_row

        topics = sorted((await client.metadata(None)).topics.items())
        rows = [topic_row(topic) for _, topic in topics]
        return {
            "topics": [
                row
                for row in rows
                if matches.fullmatch(row["name"])
                and (internal or not row["internal"])
                and (not unhealthy or row["under_replicated"] or row["offline"])
            ]
        }

    choice.show(
        read,
        lambda found: print_table(LIST_COLUMNS, found["topics"], nothing="there are no topics"),
    )


@topic_app.command("describe")
@on_cluster
def describe_topics(choice: ClusterChoice, topics: Topics) -> None:
    """Show partitions with replicas, offsets and sizes, and the configs that are not defaults."""

    async def read(client: KafkaClient) -> dict[str, Any]:
        from topology.admin import cluster_reading

        found = await cluster_reading.existing_topics(client, topics)
        offsets = await cluster_reading.offsets_of(client, found.topics.values())
        sizes = await cluster_reading.replica_sizes(client, found.brokers)
        configs = await client.ask_topic_configs(topics)
        return {
            "topics": [
                {
                    **cluster_reading.topic_row(topic),
                    "topic_id": str(topic.topic_id) if topic.topic_id else None,
                    "configs": _own_configs(configs.get(topic.name)),
                    "partition_list": cluster_reading.partition_rows(topic, offsets, sizes),
                }
                for topic in (found.topics[name] for name in topics)
            ]
        }

    choice.show(read, _print_topics)


def _own_configs(answer: Any) -> dict[str, str | None] | None:
    """Return the configs that are set on the topic; None if the user may not see them."""
    from collections.abc import Mapping

    if not isinstance(answer, Mapping):
        return None
    return {name: value for name, (value, is_default) in sorted(answer.items()) if not is_default}


def _print_topics(document: dict[str, Any]) -> None:
    for topic in document["topics"]:
        print_lines([f"topic {topic['name']}, id {topic['topic_id'] or '-'}"])
        if topic["configs"] is None:
            print_lines(["configs: not visible to this user"])
        else:
            print_lines(f"config {name}={value}" for name, value in topic["configs"].items())
        print_table(PARTITION_COLUMNS, topic["partition_list"], nothing="no partitions")


@topic_app.command("create")
@on_cluster
def create_topics(
    choice: ClusterChoice,
    topics: Topics,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", min=1, help="Default: that of the cluster.", show_default=False
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            min=1,
            help="Default: that of the cluster.",
            show_default=False,
        ),
    ] = None,
    config: ConfigOption = None,
    if_missing: Annotated[
        bool, typer.Option("--if-missing", help="A topic that exists is no error.")
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Create topics. With --dry-run the controller checks them and creates nothing."""
    configs = _pairs(config)
    counts = "" if partitions is None else f"{partitions} partitions"

    async def plan(client: KafkaClient) -> Sequence[Change]:
        from topology.admin.changes import Change

        there = (await client.metadata(None)).topics if if_missing else {}
        return [
            Change(action="create", kind="topic", name=name, detail=counts)
            for name in topics
            if name not in there
        ]

    async def send(
        client: KafkaClient, changes: Sequence[Change], *, validate_only: bool
    ) -> Sequence[KafkaError | None]:
        from local_cluster.client.model import NewTopic

        new = [
            NewTopic(
                name=each.name,
                partitions=partitions or BY_DEFAULT,
                replication_factor=replication_factor or BY_DEFAULT,
                configs=configs,
            )
            for each in changes
        ]
        results = await client.create_topics(new, validate_only=validate_only)
        return [results[each.name] for each in changes]

    carry_out(
        choice,
        plan,
        lambda client, changes: send(client, changes, validate_only=False),
        dry_run=dry_run,
        check=lambda client, changes: send(client, changes, validate_only=True),
    )


@topic_app.command("alter")
@on_cluster
def alter_topic(
    choice: ClusterChoice,
    topics: Topics,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions", "-p", min=1, help="New number of partitions, above the present one."
        ),
    ],
    dry_run: DryRunOption = False,
) -> None:
    """Add partitions to topics. `heliograph config set topic` changes their configs."""

    async def plan(client: KafkaClient) -> Sequence[Change]:
        from topology.admin.changes import Change
        from topology.admin.cluster_reading import existing_topics

        found = (await existing_topics(client, topics)).topics
        return [
            Change(
                action="alter",
                kind="topic",
                name=name,
                detail=f"{len(found[name].partitions)} -> {partitions} partitions",
            )
            for name in topics
            if len(found[name].partitions) != partitions
        ]

    async def send(
        client: KafkaClient, changes: Sequence[Change], *, validate_only: bool
    ) -> Sequence[KafkaError | None]:
        results = await client.create_partitions(
            {each.name: partitions for each in changes}, validate_only=validate_only
        )
        return [results[each.name] for each in changes]

    carry_out(
        choice,
        plan,
        lambda client, changes: send(client, changes, validate_only=False),
        dry_run=dry_run,
        check=lambda client, changes: send(client, changes, validate_only=True),
    )


@topic_app.command("delete")
@on_cluster
def delete_topics(
    choice: ClusterChoice,
    topics: Topics,
    regex: RegexOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete topics with all their records."""
    patterns = [_compiled(each) for each in topics] if regex else []

    async def plan(client: KafkaClient) -> Sequence[Change]:
        from topology.admin.changes import Change
        from topology.admin.cluster_reading import existing_topics

        names = list(topics)
        if regex:
            found = (await client.metadata(None)).topics
            names = [
                name
                for name, topic in sorted(found.items())
                if not topic.is_internal and any(each.fullmatch(name) for each in patterns)
            ]
        else:
            found = (await existing_topics(client, topics)).topics
        return [
            Change(
                action="delete",
                kind="topic",
                name=name,
                detail=f"{len(found[name].partitions)} partitions",
            )
            for name in names
        ]

    async def apply(client: KafkaClient, changes: Sequence[Change]) -> Sequence[KafkaError | None]:
        results = await client.delete_topics([each.name for each in changes])
        return [results[each.name] for each in changes]

    carry_out(
        choice, plan, apply, dry_run=dry_run, yes=yes, destroys="deletes topics and their records"
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        fail(f"{pattern!r} is no regular expression: {error}", code=EXIT_USAGE)


def _pairs(config: list[str] | None) -> dict[str, str]:
    from topology.admin.arguments import parse_pairs

    try:
        return parse_pairs(config or (), "--config")
    except ValueError as error:
        fail(str(error), code=EXIT_USAGE)
