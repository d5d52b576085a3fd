"""Random traffic waits as long as on the sensors of Kafka 4.4, to the millisecond.

The sensors are Kafka's classes `Rate` and `TokenBucket` with `QuotaUtils.throttleTime`; a step's
time is given, so no clock plays a part. QUOTA_GAMES and QUOTA_SEED draw more and other games.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any, Final

import pytest

from local_cluster.quotas.token_bucket import TokenBucket
from local_cluster.quotas.windowed_rate import WindowedRate
from tests.support.java_process import run_java

pytestmark = [pytest.mark.real, pytest.mark.oracle]

PROGRAM: Final = str(Path(__file__).parent / "java" / "PlayQuotas.java")
GAMES: Final = int(os.environ.get("QUOTA_GAMES", "300"))
SEED: Final = int(os.environ.get("QUOTA_SEED", "13"))
STEPS_MAX: Final = 60
BEGIN_MS: Final = 1_000_000
"""A sensor of Kafka begins without tokens at time 0, and is full by then."""

Game = dict[str, Any]


def random_game(chance: random.Random) -> Game:
    kind = chance.choice(["rate", "tokens"])
    quota = chance.choice([0.5, 1.0, 3.0, 100.0, 1e6, chance.uniform(0.1, 1e4)])
    pause_ms_max = chance.choice([1, 50, 1_000, 20_000])
    now_ms = BEGIN_MS
    steps = []
    for _ in range(chance.randint(1, STEPS_MAX)):
        now_ms += chance.randint(0, pause_ms_max)
        value = quota * chance.choice([0, 0.1, 1, 5, 30, chance.random()])
        steps.append((now_ms, round(value, 3)))
        if kind == "rate" and not chance.randrange(5):
            steps.append((now_ms, -steps[-1][1]))
    return {
        "kind": kind,
        "windows": chance.choice([1, 2, 11, 20]),
        "seconds": chance.choice([1, 1, 3]),
        "quota": quota,
        "steps": steps,
    }


def played(game: Game) -> list[int]:
    windows, window_ms = game["windows"], game["seconds"] * 1000
    quota = game["quota"]
    if game["kind"] == "rate":
        rate = WindowedRate(windows=windows, window_ms=window_ms)
        waits = []
        for now_ms, value in game["steps"]:
            rate.record(value, now_ms)
            waits.append(rate.wait_ms(quota, now_ms))
        return waits
    bucket = TokenBucket(windows=windows, window_ms=window_ms)
    waits = []
    for now_ms, value in game["steps"]:
        bucket.take(value, quota, now_ms)
        waits.append(bucket.wait_ms(quota, now_ms))
    return waits


async def test_waits_are_those_of_kafkas_sensors() -> None:
    chance = random.Random(SEED)
    games = [random_game(chance) for _ in range(GAMES)]
    told = await run_java(PROGRAM, lines="".join(f"{json.dumps(game)}\n" for game in games))
    kafkas = [[int(wait) for wait in line.split()] for line in told.splitlines()]
    ours = [played(game) for game in games]
    different = [
        (game["kind"], game["windows"], game["seconds"], game["quota"], step, mine, theirs)
        for game, here, there in zip(games, ours, kafkas, strict=True)
        for step, mine, theirs in zip(game["steps"], here, there, strict=True)
        # Both round a double to a whole millisecond, which addition in another order may change.
        if abs(mine - theirs) > 1
    ]
    waits = [wait for here in ours for wait in here]
    assert not different, different[:10]
    assert 0.1 < sum(wait > 0 for wait in waits) / len(waits) < 0.9
