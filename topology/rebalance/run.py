"""One run of `heliograph rebalance`: read the layout, plan, execute."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from local_cluster.client.client import KafkaClient
from local_cluster.wire.errors import KafkaError
from topology.problems import DeployError
from topology.rebalance.execution import Progress, Refused, execute
from topology.rebalance.layout import Layout, read_layout
from topology.rebalance.planner import CannotPlan, Move, plan_moves

CONTINUES: Final = "running reassignments continue; repeat the command to move the rest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """The request."""

    bootstrap: str
    security: ClientSecurity = PLAINTEXT
    drained: frozenset[int] = frozenset()
    throttle: int | None = None
    """Bytes per second and broker; None for no limit."""
    dry_run: bool = False


def rebalance(
    asked: Rebalance,
    *,
    on_plan: Callable[[dict[str, Any]], None] = lambda document: None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> dict[str, Any]:
    """Plan and move; return the plan as JSON, with `done`. Raises DeployError."""
    asked_to_move = False

    def follow(progress: Progress) -> None:
        nonlocal asked_to_move  # set before the first reassignment is requested
        asked_to_move = progress.planned > 0
        on_progress(progress)

    try:
        return asyncio.run(_rebalance(asked, on_plan, follow))
    except CannotPlan as error:
        raise DeployError(
            "not every replica has a broker to move to", str(error).splitlines()
        ) from error
    except Refused as error:
        words = "the controller refuses some reassignments; the others continue"
        raise DeployError(words, str(error).splitlines()) from error
    except KafkaError as error:
        raise DeployError(
            f"the cluster at {asked.bootstrap} does not do it: {error}",
            [CONTINUES] if asked_to_move else [],
        ) from error


async def _rebalance(
    asked: Rebalance,
    on_plan: Callable[[dict[str, Any]], None],
    on_progress: Callable[[Progress], None],
) -> dict[str, Any]:
    async with KafkaClient(
        asked.bootstrap, client_id="heliograph-rebalance", security=asked.security
    ) as client:
        layout = await read_layout(client)
        unknown = asked.drained - layout.broker_ids - _holders(layout)
        if unknown:
            names = ", ".join(map(str, sorted(unknown)))
            known = ", ".join(map(str, sorted(layout.broker_ids)))
            raise DeployError(f"no broker {names} here; there are: {known}")
        moves = plan_moves(layout.partitions, layout.sites, asked.drained)
        document = plan_document(layout, moves)
        on_plan(document)
        if asked.dry_run:
            return {**document, "done": False}
        await execute(client, layout, moves, throttle=asked.throttle, on_progress=on_progress)
        return {**document, "done": True}


def _holders(layout: Layout) -> frozenset[int]:
    return frozenset(replica for ids in layout.replicas.values() for replica in ids)


def plan_document(layout: Layout, moves: Iterable[Move]) -> dict[str, Any]:
    """Return the plan as JSON; an unknown size is null."""
    moves = list(moves)
    before = {key: each.replicas for key, each in layout.partitions.items()}
    after = {**before, **{move.partition: move.after for move in moves}}
    copied = [move.copied_bytes for move in moves]
    return {
        "brokers": _brokers(layout, before, after),
        "moves": [
            {
                "topic": move.partition.topic,
                "partition": move.partition.partition,
                "from": list(move.before),
                "to": list(move.after),
                "bytes": move.copied_bytes,
            }
            for move in moves
        ],
        "bytes": None if None in copied else sum(each for each in copied if each is not None),
        "under_way": [str(key) for key in sorted(layout.under_way)],
    }


def _brokers(
    layout: Layout, before: Mapping[Any, tuple[int, ...]], after: Mapping[Any, tuple[int, ...]]
) -> list[dict[str, Any]]:
    counts = {}
    for when, replicas in (("before", before), ("after", after)):
        held = Counter(replica for ids in replicas.values() for replica in ids)
        led = Counter(ids[0] for ids in replicas.values() if ids)
        counts[when] = {"replicas": held, "preferred": led}
    ids = {*layout.broker_ids, *counts["before"]["replicas"]}
    racks = {site.broker_id: site for site in layout.sites}
    return [
        {
            "id": broker_id,
            "host": racks[broker_id].host if broker_id in racks else None,
            "alive": broker_id in racks,
            **{
                f"{what}_{when}": counts[when][what][broker_id]
                for what in ("replicas", "preferred")
                for when in ("before", "after")
            },
        }
        for broker_id in sorted(ids)
    ]
