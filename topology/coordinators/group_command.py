"""`heliograph group ...`: its options and output.

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
from topology.cli.command_line import EXIT_USAGE, fail
from topology.cli.completion import group_names

if TYPE_CHECKING:
    from local_cluster.client.client import KafkaClient
    from local_cluster.client.model import TopicPartition
    from local_cluster.wire.errors import KafkaError
    from topology.admin.changes import Change

group_app = typer.Typer(
    no_args_is_help=True, help="Groups: list, describe with lag, reset offsets, delete."
)
Groups = Annotated[
    list[str],
    typer.Argument(metavar="GROUP...", help="Names of groups.", autocompletion=group_names),
]
TopicsOption = Annotated[
    list[str],
    typer.Option(
        "--topic", metavar="TOPIC[:PARTITIONS]", help="Such as orders:0,3-5; may be repeated."
    ),
]
LIST_COLUMNS = (
    ("group", "group"),
    ("state", "state"),
    ("type", "type"),
    ("protocol", "protocol"),
    ("coordinator", "coordinator"),
)
LAG_COLUMNS = (
    ("topic", "topic"),
    ("partition", "partition"),
    ("committed", "committed"),
    ("end", "end"),
    ("lag", "lag"),
    ("seconds", "lag_seconds"),
    ("client", "client"),
)
MEMBER_COLUMNS = (
    ("member", "member_id"),
    ("client", "client_id"),
    ("host", "host"),
    ("partitions", "count"),
)


@group_app.command("list")
@on_cluster
def list_groups(
    choice: ClusterChoice,
    state: Annotated[
        str | None,
        typer.Option("--state", help="Only groups in this state, such as Stable or Empty."),
    ] = None,
) -> None:
    """List groups."""

    async def read(client: KafkaClient) -> dict[str, Any]:
        from topology.coordinators.group_reading import list_all_groups
        from topology.coordinators.listing import in_state

        return {"groups": in_state(await list_all_groups(client), state)}

    choice.show(
        read,
        lambda found: print_table(LIST_COLUMNS, found["groups"], nothing="there are no groups"),
    )


@group_app.command("describe")
@on_cluster
def describe_groups(choice: ClusterChoice, groups: Groups) -> None:
    """Show members, committed offsets and lag."""

    async def read(client: KafkaClient) -> dict[str, Any]:
        from topology.coordinators.group_reading import describe_group

        return {"groups": [await describe_group(client, group) for group in groups]}

    choice.show(read, _print_groups)


def _print_groups(document: dict[str, Any]) -> None:
    for group in document["groups"]:
        lag = "unknown" if group["lag"] is None else group["lag"]
        seconds = group["lag_seconds"]
        age = "" if seconds is None else f" ({seconds:.1f} s)"
        print_lines([f"group {group['group']}: {group['state']}, lag {lag}{age}"])
        members = [
            {**each, "count": None if each["assignment"] is None else len(each["assignment"])}
            for each in group["members"]
        ]
        print_table(MEMBER_COLUMNS, members, nothing="it has no members")
        print_table(LAG_COLUMNS, group["partitions"], nothing="it has no committed offsets")


@group_app.command("reset")
@on_cluster
def reset_group(
    choice: ClusterChoice,
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="Name of the group.", autocompletion=group_names)
    ],
    topic: TopicsOption,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="PLACE",
            help="`start`, `end`, an offset, +N or -N records from the committed offset, an age"
            " such as 2h, or a time.",
        ),
    ],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Move the committed offsets of a group without members."""
    from topology.admin.arguments import parse_partitions, parse_place

    try:
        wanted = parse_partitions(topic)
        place = parse_place(to, time.time_ns() // 1_000_000)
    except ValueError as error:
        fail(str(error), code=EXIT_USAGE)
    targets: dict[str, tuple[TopicPartition, int]] = {}

    async def plan(client: KafkaClient) -> Sequence[Change]:
        from topology.admin.changes import Change
        from topology.coordinators.group_reset import plan_reset

        moves = await plan_reset(client, group, wanted, place)
        targets.update({str(at): (at, after) for at, _, after in moves})
        return [
            Change(
                action="reset",
                kind="offset",
                name=str(at),
                detail=f"{'none' if before is None else before} -> {after}",
            )
            for at, before, after in moves
        ]

    async def apply(client: KafkaClient, changes: Sequence[Change]) -> Sequence[KafkaError | None]:
        from topology.coordinators.group_reset import commit

        results = await commit(client, group, dict(targets.values()))
        return [results[targets[each.name][0]] for each in changes]

    carry_out(
        choice,
        plan,
        apply,
        dry_run=dry_run,
        yes=yes,
        destroys=f"makes group {group} read records again, or skip some",
    )


@group_app.command("delete")
@on_cluster
def delete_groups(
    choice: ClusterChoice, groups: Groups, yes: YesOption = False, dry_run: DryRunOption = False
) -> None:
    """Delete groups without members, with their committed offsets."""

    async def plan(client: KafkaClient) -> Sequence[Change]:
        from topology.admin.changes import Change
        from topology.coordinators.group_reading import group_state

        states = [await group_state(client, group) for group in groups]
        return [
            Change(action="delete", kind="group", name=each["group"], detail=each["state"])
            for each in states
        ]

    async def apply(client: KafkaClient, changes: Sequence[Change]) -> Sequence[KafkaError | None]:
        from topology.coordinators.group_reset import delete_group

        return [await delete_group(client, each.name) for each in changes]

    carry_out(choice, plan, apply, dry_run=dry_run, yes=yes, destroys="deletes committed offsets")


@group_app.command("forget")
@on_cluster
def forget_topics(
    choice: ClusterChoice,
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="Name of the group.", autocompletion=group_names)
    ],
    topic: TopicsOption,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete the committed offsets of a group in topics that it does not read any more."""
    from topology.admin.arguments import parse_partitions

    try:
        wanted = parse_partitions(topic)
    except ValueError as error:
        fail(str(error), code=EXIT_USAGE)
    targets: dict[str, TopicPartition] = {}

    async def plan(client: KafkaClient) -> Sequence[Change]:
        from topology.admin.changes import Change
        from topology.coordinators.group_reset import committed_in

        found = await committed_in(client, group, wanted)
        targets.update({str(at): at for at in found})
        return [
            Change(action="delete", kind="offset", name=str(at), detail=str(found[at]))
            for at in sorted(found)
        ]

    async def apply(client: KafkaClient, changes: Sequence[Change]) -> Sequence[KafkaError | None]:
        from topology.coordinators.group_reset import delete_offsets

        results = await delete_offsets(client, group, list(targets.values()))
        return [results[targets[each.name]] for each in changes]

    carry_out(choice, plan, apply, dry_run=dry_run, yes=yes, destroys="deletes committed offsets")
