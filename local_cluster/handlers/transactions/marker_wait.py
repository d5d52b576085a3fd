"""Wait for the markers of a producer's previous transaction before the next one begins.

The coordinator refuses partitions with CONCURRENT_TRANSACTIONS until these markers are written,
which takes milliseconds. A client that gets the error pauses for longer: librdkafka for 100 ms,
Java for 20. So the broker asks again in its place, as Kafka does for clients of version 2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from local_cluster.handlers.transactions.transaction_errors import error_of
from local_cluster.transactions.requests import AddRequest
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from local_cluster.handlers.services import BrokerServices

PAUSE_SECONDS_MIN: Final = 0.001
PAUSE_MS_MAX_DEFAULT: Final = 20
"""Default of add.partitions.to.txn.retry.backoff.ms: the longest pause between two requests."""
WAIT_MS_MAX_DEFAULT: Final = 100
"""Default of add.partitions.to.txn.retry.backoff.max.ms: how long to wait for the markers before
the client gets CONCURRENT_TRANSACTIONS."""

Answer = TypeVar("Answer")


async def after_markers(
    broker: BrokerServices,
    ask: Callable[[bool], Awaitable[Answer]],
    is_too_early: Callable[[Answer], bool],
) -> Answer:
    """Ask until the answer is not that it is too early, or until the time is over.

    `ask` is told whether it asks again.
    """
    read = broker.settings.config_int
    pause_max = read("add.partitions.to.txn.retry.backoff.ms", PAUSE_MS_MAX_DEFAULT) / 1000
    left = read("add.partitions.to.txn.retry.backoff.max.ms", WAIT_MS_MAX_DEFAULT) / 1000
    pause = min(PAUSE_SECONDS_MIN, pause_max)
    answer = await ask(False)
    while is_too_early(answer) and 0 < pause <= left:
        await asyncio.sleep(pause)
        left -= pause
        pause = min(2 * pause, pause_max)
        answer = await ask(True)
    return answer


async def add_after_markers(broker: BrokerServices, request: AddRequest) -> ErrorCode:
    """Add the partitions of a client of version 1 at the coordinator, which is this broker."""
    return await after_markers(
        broker,
        lambda again: error_of(
            lambda: broker.transactions.add_partitions(request._replace(is_again=again))
        ),
        lambda error: error is ErrorCode.concurrent_transactions,
    )
