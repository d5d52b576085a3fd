"""A mix is the same for the same seed, and takes about as long as it should."""

from __future__ import annotations

from tests.nemesis.plan import STEP_OVERHEAD_SECONDS, mix

FAULTS = ["a", "b", "c"]


def test_a_seed_gives_one_plan() -> None:
    assert mix(FAULTS, 600.0, 7) == mix(FAULTS, 600.0, 7)
    assert mix(FAULTS, 600.0, 7) != mix(FAULTS, 600.0, 8)


def test_a_plan_fills_its_time_with_all_faults_and_some_pairs() -> None:
    steps = mix(FAULTS, 600.0, 7)
    seconds = sum(s.hold_seconds + s.calm_seconds + STEP_OVERHEAD_SECONDS for s in steps)
    assert 600.0 <= seconds < 640.0
    assert {fault for step in steps for fault in step.faults} == set(FAULTS)
    assert {len(set(step.faults)) for step in steps} == {1, 2}


def test_some_faults_are_never_paired() -> None:
    steps = mix(FAULTS, 3_000.0, 7, alone=["a"])
    pairs = [set(step.faults) for step in steps if len(step.faults) == 2]
    assert pairs
    assert all(pair == {"b", "c"} for pair in pairs)
    assert ("a",) in {step.faults for step in steps}


def test_one_fault_is_never_paired() -> None:
    assert {step.faults for step in mix(["a"], 300.0, 1)} == {("a",)}
