"""How long the broker waits in a client's place for the markers of its previous transaction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from local_cluster.handlers.transactions.marker_wait import after_markers
from local_cluster.wire.errors import ErrorCode

BUSY = ErrorCode.concurrent_transactions


def broker(pause_ms_max: int, wait_ms_max: int) -> Any:
    configs = {
        "add.partitions.to.txn.retry.backoff.ms": pause_ms_max,
        "add.partitions.to.txn.retry.backoff.max.ms": wait_ms_max,
    }
    return SimpleNamespace(settings=SimpleNamespace(config_int=lambda name, default: configs[name]))


class Coordinator:
    """Refuses so many times, then accepts."""

    def __init__(self, refusals: int) -> None:
        self._refusals = refusals
        self.asked: list[bool] = []

    async def ask(self, again: bool) -> ErrorCode:
        self.asked.append(again)
        return BUSY if len(self.asked) <= self._refusals else ErrorCode.none


async def added(coordinator: Coordinator, pause_ms_max: int, wait_ms_max: int) -> ErrorCode:
    return await after_markers(
        broker(pause_ms_max, wait_ms_max), coordinator.ask, lambda error: error is BUSY
    )


async def test_the_broker_asks_again_until_the_markers_are_written() -> None:
    coordinator = Coordinator(refusals=3)
    assert await added(coordinator, 20, 100) is ErrorCode.none
    assert coordinator.asked == [False, True, True, True]


# 1, 2, 4 and 4 ms are 11 ms; another 4 would be more than 12.
@pytest.mark.parametrize(
    ("pause_ms_max", "wait_ms_max", "asks"), [(4, 12, 5), (0, 12, 1), (4, 0, 1)]
)
async def test_the_client_gets_the_error_when_the_time_is_over(
    pause_ms_max: int, wait_ms_max: int, asks: int
) -> None:
    coordinator = Coordinator(refusals=100)
    assert await added(coordinator, pause_ms_max, wait_ms_max) is BUSY
    assert len(coordinator.asked) == asks


async def test_other_errors_are_not_waited_for() -> None:
    async def ask(again: bool) -> ErrorCode:
        assert not again
        return ErrorCode.producer_fenced

    found = await after_markers(broker(20, 100), ask, lambda error: error is BUSY)
    assert found is ErrorCode.producer_fenced
