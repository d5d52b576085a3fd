"""Carries a plan out: reassigns a few partitions at a time, and waits for each reassignment.

Guarantees: at most PARTITIONS_MOVING_MAX partitions of the plan move at once. Earlier reassignments
are never cancelled. So the command may be interrupted and repeated at any time: running
reassignments continue without it, and the next run plans the rest. Throttles are removed when no
partition moves any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from local_cluster.client.model import TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from topology.rebalance.layout import ASK_TIMEOUT_MS, ClusterCalls, Layout, list_moves
from topology.rebalance.planner import Move
from topology.rebalance.throttles import remove_throttles, set_throttles

PARTITIONS_MOVING_MAX: Final = 20
"""More partitions in parallel would not finish earlier."""
POLL_S: Final = 0.5
PREFERRED: Final = 0
"""Election type: the preferred replica, which is the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How much of a plan is done, in partitions."""

    moved: int
    moving: int
    planned: int


class Refused(Exception):
    """The controller refused reassignments; one line each."""


async def execute(
    client: ClusterCalls,
    layout: Layout,
    moves: Sequence[Move],
    *,
    throttle: int | None,
    on_progress: Callable[[Progress], None],
) -> None:
    """Carry the moves out; return when no partition moves. Raises KafkaError, Refused."""
    if throttle is not None and (moves or layout.under_way):
        await set_throttles(client, layout.broker_ids, _copied(layout, moves), throttle)
    waiting = list(moves)
    planned = len(moves) + len(layout.under_way.keys() - {move.partition for move in moves})
    while True:
        moving = await list_moves(client)
        on_progress(
            Progress(
                # Not below 0: other tools may move further partitions.
                moved=max(planned - len(waiting) - len(moving), 0),
                moving=len(moving),
                planned=planned,
            )
        )
        room = max(PARTITIONS_MOVING_MAX - len(moving), 0)
        now, waiting = waiting[:room], waiting[room:]
        if now:
            await _begin(client, now)
        elif not moving and not waiting:
            break
        else:
            await asyncio.sleep(POLL_S)
    await _elect(client, [move.partition for move in moves])
    await remove_throttles(client, layout.broker_ids, {key.topic for key in layout.partitions})


def _copied(
    layout: Layout, moves: Iterable[Move]
) -> dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return (replicas that may send, replicas to fill) of each partition that is copied."""
    copied = {
        key: (layout.replicas[key], adding) for key, adding in layout.under_way.items() if adding
    }
    for move in moves:
        if move.adding:
            copied[move.partition] = (layout.replicas[move.partition], move.adding)
    return copied


async def _begin(client: ClusterCalls, moves: Iterable[Move]) -> None:
    topics: dict[str, list[dict[str, Any]]] = {}
    for move in moves:
        topics.setdefault(move.partition.topic, []).append(
            {"partition_index": move.partition.partition, "replicas": list(move.after)}
        )
    answer = await client.call_controller(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        {
            "timeout": ASK_TIMEOUT_MS,
            # A plan never changes it. If it would, the layout behind the plan was out of date.
            "allow_replication_factor_change": False,
            "topics": [{"name": name, "partitions": each} for name, each in topics.items()],
        },
    )
    if answer.error_code:
        raise KafkaError(answer.error_code, answer.error_message or "")
    refused = [
        f"{topic.name}-{each.partition_index}: {each.error_message or each.error_code.name}"
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code
    ]
    if refused:
        raise Refused("\n".join(refused))


async def _elect(client: ClusterCalls, partitions: Iterable[TopicPartition]) -> None:
    """Elect the preferred leaders. If one cannot lead now, the leader balancing elects it later."""
    topics: dict[str, list[int]] = {}
    for key in partitions:
        topics.setdefault(key.topic, []).append(key.partition)
    if not topics:
        return
    answer = await client.call_controller(
        ApiKey.ELECT_LEADERS,
        {
            "election_type": PREFERRED,
            "topic_partitions": [
                {"topic": topic, "partitions": indexes} for topic, indexes in topics.items()
            ],
            "timeout": ASK_TIMEOUT_MS,
        },
    )
    if answer.error_code not in (ErrorCode.none, ErrorCode.election_not_needed):
        raise KafkaError(answer.error_code, "ElectLeaders")
