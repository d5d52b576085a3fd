"""Which attempts of repeated work are logged, and at which level."""

from __future__ import annotations

import logging
from random import Random

import pytest

from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.periodic import PeriodicTask
from mirror_maker.ports import SystemClock


class Done(Exception):
    """Ends the work after its success."""


async def test_only_the_first_failure_is_logged_above_debug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "mirror_maker.periodic")
    left = 3

    async def work() -> None:
        nonlocal left
        if left:
            left -= 1
            raise KafkaError(ErrorCode.request_timed_out, f"{left} left")

    async def pause() -> None:
        raise Done

    backoff = Backoff(1, 1, Random(1), SystemClock())
    task = PeriodicTask(work, link="a-b", what_failed="no map", pause=pause, backoff=backoff)
    with pytest.raises(Done):
        await task.run()
    found = [(each.levelname, each.getMessage()) for each in caplog.records]
    levels, sentences = zip(*found, strict=True)
    assert levels == ("WARNING", "DEBUG", "DEBUG", "INFO")
    assert [each.partition(": ")[0] for each in sentences[:3]] == ["link a-b"] * 3
    assert ["no map again" in each for each in sentences] == [False, True, True, False]
    assert sentences[3] == "link a-b: succeeded again, after: no map"
