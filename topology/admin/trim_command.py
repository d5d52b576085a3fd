"""`heliograph topic trim`: deletes the records of a topic below an offset (DeleteRecords)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from topology.admin.carry_out import DryRunOption, YesOption, carry_out
from topology.admin.cluster_choice import ClusterChoice, on_cluster
from topology.cli.command_line import EXIT_USAGE, fail
from topology.cli.completion import topic_names

if TYPE_CHECKING:
    from local_cluster.client.client import KafkaClient
    from local_cluster.client.model import TopicPartition
    from local_cluster.wire.errors import KafkaError
    from topology.admin.changes import Change

TIMEOUT_MS = 10_000
"""How long the leader waits for its followers."""


@on_cluster
def trim_topic(
    choice: ClusterChoice,
    topics: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC[:PARTITIONS]...",
            help="Such as orders, or orders:0,3-5.",
            autocompletion=topic_names,
        ),
    ],
    before: Annotated[
        str,
        typer.Option(
            "--before", metavar="PLACE", help="An offset, `end`, an age such as 2h, or a time."
        ),
    ],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete all records before a place."""
    from topology.admin.arguments import parse_partitions, parse_place

    try:
        wanted = parse_partitions(topics)
        place = parse_place(before, time.time_ns() // 1_000_000)
    except ValueError as error:
        fail(str(error), code=EXIT_USAGE)
    if place.kind in ("shift", "start"):
        fail(f"--before {before!r}: name an offset, `end`, an age or a time", code=EXIT_USAGE)
    targets: list[tuple[TopicPartition, int]] = []

    async def plan(client: KafkaClient) -> Sequence[Change]:
        from topology.admin.changes import Change
        from topology.admin.places import chosen_partitions, offset_range, place_offsets

        places = await chosen_partitions(client, wanted)
        ends = await place_offsets(client, places, place)
        ranges = await offset_range(client, places)
        changes = []
        for at in places:
            start, end = ranges[at]
            to = min(max(ends[at], start), end)
            if to > start:
                targets.append((at, to))
                changes.append(
                    Change(
                        action="trim",
                        kind="partition",
                        name=str(at),
                        detail=f"offsets {start}..{to - 1}",
                    )
                )
        return changes

    async def apply(client: KafkaClient, _: Sequence[Change]) -> Sequence[KafkaError | None]:
        from topology.admin.places import delete_records

        results = await delete_records(client, dict(targets), timeout_ms=TIMEOUT_MS)
        return [results[at] for at, _ in targets]

    carry_out(choice, plan, apply, dry_run=dry_run, yes=yes, destroys="deletes records for good")
