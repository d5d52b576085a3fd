"""A fetch without a session, asked again while its broker holds the answer back for a quota.

Above a client quota Apache Kafka answers a Fetch without error and without any partition; it says
only how long to wait (KIP-13, KIP-219; `FetchContext.getThrottledResponse`). Without a session
every partition that is asked for is told of, so one that is missing was held back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Set
from typing import Final

from local_cluster.client.model import FetchedPartition, SessionAnswer, TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError

THROTTLED_ATTEMPTS_MAX: Final = 20
THROTTLE_WAIT_MS_MAX: Final = 5_000
"""Before the next attempt. Where the broker wants longer its answer comes so much later: it does
not read from the connection before."""
THROTTLE_WAIT_MS_MIN: Final = 100
"""Also where nothing is said of how long."""


async def until_answered(
    asked: Set[TopicPartition], send: Callable[[], Awaitable[SessionAnswer]]
) -> dict[TopicPartition, FetchedPartition]:
    """Every asked partition's answer; `send` is one request for all of them.

    Raises KafkaError as `send` does, and request_timed_out, which is to be tried again, where some
    were held back at every attempt.
    """
    for attempt in range(THROTTLED_ATTEMPTS_MAX):
        answer = await send()
        missing = asked - answer.partitions.keys()
        if not missing:
            return answer.partitions
        if attempt + 1 < THROTTLED_ATTEMPTS_MAX:
            wait_ms = max(THROTTLE_WAIT_MS_MIN, min(answer.throttle_ms, THROTTLE_WAIT_MS_MAX))
            await asyncio.sleep(wait_ms / 1000)
    raise KafkaError(
        ErrorCode.request_timed_out,
        f"{min(missing)}: the broker held its answer to a fetch back {THROTTLED_ATTEMPTS_MAX} "
        "times, as above a client quota",
    )
