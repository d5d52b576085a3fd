"""Cells merge, and the table says what came out."""

from __future__ import annotations

import json

from tests.nemesis.checkers.findings import measured
from tests.nemesis.outcome import (
    ANOMALY,
    NO_PROGRESS,
    NOT_RUN,
    OK,
    Outcome,
    from_json,
    measured_table,
    merged,
    table,
)


def outcome(workload: str, verdict: str = OK, fault: str = "kill", **fields: object) -> Outcome:
    return Outcome(system="ours", fault=fault, workload=workload, verdict=verdict, **fields)  # type: ignore[arg-type]


def test_a_newer_cell_takes_the_place_of_an_older_one() -> None:
    old = [outcome("set", NO_PROGRESS), outcome("queue")]
    assert merged(old, [outcome("set")]) == [outcome("set"), outcome("queue")]


def test_json_there_and_back() -> None:
    before = outcome("set", ANOMALY, anomalies={"lost": 2}, examples=["lost: x"], seed=7)
    assert from_json(json.loads(json.dumps(before.json()))).cell == before.cell


def test_the_table_shows_each_kind_of_outcome() -> None:
    outcomes = [
        outcome("set", progress_seconds=1.25),
        outcome("queue", progress_seconds=12.0),
        outcome("etl", ANOMALY, anomalies={"lost": 2}),
        outcome("set", NO_PROGRESS, fault="pause"),
        outcome("queue", NOT_RUN, fault="pause"),
    ]
    titles = {"kill": "kill -9", "pause": "SIGSTOP", "never": "was not run"}
    assert table(outcomes, "ours", titles, ["set", "queue", "etl", "absent"]) == (
        "| fault | set | queue | etl |\n"
        "|---|---|---|---|\n"
        "| `kill`: kill -9 | ok 1.2 | ok 12.0 (late) | **lost 2** |\n"
        "| `pause`: SIGSTOP | **no progress** | - |  |"
    )


def test_the_table_of_what_was_measured() -> None:
    times = measured([0.2, 0.1, 0.3])
    assert times == (200, 300, 300, 3)
    told = [outcome("rights", measured={"login": times}), outcome("set")]
    outcomes = [from_json(json.loads(json.dumps(each.json()))) for each in told]
    assert measured_table(outcomes, "ours") == (
        "| fault | workload | login |\n|---|---|---|\n| `kill` | rights | 200 / 300 / 300 (3) |"
    )
    assert measured_table(outcomes, "kafka") == ""
