"""`heliograph config ...`: configs of topics, brokers, groups and client metrics.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topology.admin.carry_out import DryRunOption, carry_out
from topology.admin.cluster_choice import ClusterChoice, on_cluster
from topology.admin.output import print_table
from topology.cli.command_line import EXIT_USAGE, fail

if TYPE_CHECKING:
    from local_cluster.client.client import KafkaClient
    from local_cluster.client.model import ConfigChange
    from local_cluster.wire.constants import ConfigResourceType
    from local_cluster.wire.errors import KafkaError
    from topology.admin.changes import Change


class Kind(enum.StrEnum):
    """The kinds of resources that have configs."""

    topic = "topic"
    broker = "broker"
    group = "group"
    client_metrics = "client-metrics"
    broker_logger = "broker-logger"


config_app = typer.Typer(no_args_is_help=True, help="Configs: describe, set.")
KindArgument = Annotated[Kind, typer.Argument(help="Kind of the resource.")]
NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Its name; for brokers an id, or `default` for all of them."
    ),
]
ValuesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CONFIG=VALUE...]", help="New values.", show_default=False),
]
ResetOption = Annotated[
    list[str] | None,
    typer.Option("--reset", metavar="CONFIG", help="Back to the default.", show_default=False),
]
AppendOption = Annotated[
    list[str] | None,
    typer.Option(
        "--append", metavar="CONFIG=ITEM", help="Adds an item to a list.", show_default=False
    ),
]
SubtractOption = Annotated[
    list[str] | None,
    typer.Option(
        "--subtract",
        metavar="CONFIG=ITEM",
        help="Removes an item of a list.",
        show_default=False,
    ),
]
COLUMNS = (("config", "name"), ("value", "value"), ("source", "source"), ("read-only", "read_only"))
DEFAULT_NAME = "default"


@config_app.command("describe")
@on_cluster
def describe_config(
    choice: ClusterChoice,
    kind: KindArgument,
    name: NameArgument,
    show_all: Annotated[
        bool, typer.Option("--all", help="Also defaults, and what the broker's file says.")
    ] = False,
    documentation: Annotated[
        bool, typer.Option("--doc", help="With the documentation of each config.")
    ] = False,
) -> None:
    """Show the configs that are set; the values of secrets never show."""
    resource = _resource_name(kind, name)

    async def read(client: KafkaClient) -> dict[str, Any]:
        from local_cluster.client.admin.configs import describe_configs
        from topology.admin.cluster_reading import existing_topics
        from topology.admin.config_rows import config_rows

        if kind is Kind.topic:
            await existing_topics(client, [name])
        found = await describe_configs(
            client, _resource_type(kind), resource, with_documentation=documentation
        )
        return {
            "kind": kind.value,
            "name": name,
            "configs": config_rows(
                found,
                _resource_type(kind),
                resource,
                with_defaults=show_all,
                with_documentation=documentation,
            ),
        }

    columns = (*COLUMNS, ("documentation", "documentation")) if documentation else COLUMNS
    choice.show(
        read,
        lambda found: print_table(
            columns, found["configs"], nothing="every config has its default"
        ),
    )


@config_app.command("set")
@on_cluster
def set_config(
    choice: ClusterChoice,
    kind: KindArgument,
    name: NameArgument,
    values: ValuesArgument = None,
    reset: ResetOption = None,
    append: AppendOption = None,
    subtract: SubtractOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Set, reset and extend configs of one resource, all or none.

    With --dry-run the broker checks the values and changes nothing.
    """
    from topology.admin.config_rows import config_changes

    try:
        wanted = config_changes(values or (), reset or (), append or (), subtract or ())
    except ValueError as error:
        fail(str(error), code=EXIT_USAGE)
    resource = _resource_name(kind, name)

    async def plan(client: KafkaClient) -> Sequence[Change]:
        from topology.admin.changes import Change
        from topology.admin.cluster_reading import existing_topics
        from topology.admin.config_rows import shown_value

        if kind is Kind.topic:
            await existing_topics(client, [name])
        return [
            Change(
                action=each.operation.name.lower(),
                kind=f"config of {kind.value} {name}",
                name=each.name,
                detail=shown_value(each.name, each.value),
            )
            for each in wanted
        ]

    async def send(
        client: KafkaClient, changes: Sequence[Change], *, validate_only: bool
    ) -> Sequence[KafkaError | None]:
        refusal = await _alter(client, kind, resource, wanted, validate_only=validate_only)
        return [refusal] * len(changes)

    carry_out(
        choice,
        plan,
        lambda client, changes: send(client, changes, validate_only=False),
        dry_run=dry_run,
        check=lambda client, changes: send(client, changes, validate_only=True),
    )


async def _alter(
    client: KafkaClient,
    kind: Kind,
    resource: str,
    wanted: Sequence[ConfigChange],
    *,
    validate_only: bool,
) -> KafkaError | None:
    """Return the refusal of the changes, which the broker makes all or none."""
    from local_cluster.client.admin.configs import alter_configs
    from local_cluster.wire.errors import KafkaError

    try:
        await alter_configs(
            client, _resource_type(kind), resource, wanted, validate_only=validate_only
        )
    except KafkaError as error:
        return error
    return None


def _resource_type(kind: Kind) -> ConfigResourceType:
    from local_cluster.wire.constants import ConfigResourceType

    return ConfigResourceType[kind.name.upper()]


def _resource_name(kind: Kind, name: str) -> str:
    if kind not in (Kind.broker, Kind.broker_logger):
        return name
    if name == DEFAULT_NAME and kind is Kind.broker:
        return ""
    if not name.isdecimal():
        expected = "an id" if kind is Kind.broker_logger else f"an id or `{DEFAULT_NAME}`"
        fail(f"broker {name!r}: expected {expected}", code=EXIT_USAGE)
    return name
