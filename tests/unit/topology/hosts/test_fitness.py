"""Whether this host can run its part: room, open files, clocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from topology.deployment.plan import Step
from topology.deployment.removals import log_dirs_of
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.hosts.answers import Answer, with_clock
from topology.hosts.fitness import (
    CLOCK_MS_MAX,
    DISK_BYTES_MIN,
    OPEN_FILES_MIN,
    HostFacts,
    host_warnings,
    room_problems,
)
from topology.hosts.own_host import check_room, host_facts
from topology.problems import DeployError

WELL = HostFacts(OPEN_FILES_MIN, {"/data": DISK_BYTES_MIN}, {"10.0.0.2": CLOCK_MS_MAX})
TOPOLOGY = (
    "name: t\nclusters:\n  - {name: c, brokers: [{id: 1, port: 9101, log_dirs: [., more]}]}\n"
)


def test_a_host_that_is_fit_has_neither_problems_nor_warnings() -> None:
    assert room_problems(WELL) == host_warnings(WELL) == []
    assert host_warnings(WELL._replace(open_files_max=None)) == [], "no limit at all"


def test_a_full_disk_and_a_low_limit_are_told() -> None:
    (problem,) = room_problems(WELL._replace(free_bytes={"/data": DISK_BYTES_MIN - 1}))
    assert problem.startswith(f"/data has {DISK_BYTES_MIN - 1} bytes left")
    (warning,) = host_warnings(WELL._replace(open_files_max=OPEN_FILES_MIN - 1))
    assert warning.startswith(f"a process on this host may open {OPEN_FILES_MIN - 1} files")


@pytest.mark.parametrize(
    ("ahead_ms", "words"), [(3_200, "3.2 s ahead of"), (-9_000, "9.0 s behind")]
)
def test_a_clock_that_differs_is_told(ahead_ms: int, words: str) -> None:
    (warning,) = host_warnings(WELL._replace(clocks_ahead_ms={"10.0.0.2": ahead_ms}))
    assert warning == f"the clock of 10.0.0.2 is {words} that of this host"


@pytest.mark.parametrize(
    ("now_ms", "ahead_ms"),
    [(1_000, 0), (1_500, 0), (2_000, 0), (2_700, 700), (400, -600), (None, None)],
)
def test_the_time_of_the_request_is_no_difference(now_ms: int | None, ahead_ms: int | None) -> None:
    """A host of an older version does not tell its time."""
    answer = Answer(state="answers", report={} if now_ms is None else {"now_ms": now_ms})
    assert with_clock(answer, 1_000, 2_000).clock_ahead_ms == ahead_ms
    silent = Answer(state="unreachable")
    assert with_clock(silent, 1_000, 2_000) == silent


def test_the_disks_of_what_starts_are_looked_at(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    deployment = render(parse_topology(TOPOLOGY), state, topology_file=Path("/t.yaml"))
    asked: list[Path] = []

    def free_bytes(directory: Path) -> int:
        asked.append(directory)
        return 7

    start = Step(action="start", key="broker-c-1", label="broker 1 of c")
    log_dirs = [Path(each) for each in log_dirs_of(deployment.daemon("broker-c-1"))]
    assert len(log_dirs) == 2
    for each in log_dirs:
        each.mkdir(parents=True)
    answers = {"a": Answer(state="answers", clock_ahead_ms=5), "b": Answer(state="unreachable")}
    facts = host_facts(deployment, [start], answers, free_bytes)
    assert asked == log_dirs
    assert facts.clocks_ahead_ms == {"a": 5}
    with pytest.raises(DeployError, match="a disk of this host is full") as error:
        check_room(facts)
    assert len(error.value.details) == 2
    asked.clear()
    for other in (replace(start, action="restart"), replace(start, action="stop")):
        check_room(host_facts(deployment, [other], {}, free_bytes))
    assert asked == [], "what runs is not kept from a restart"


def test_the_nearest_directory_above_is_looked_at_before_the_first_start(tmp_path: Path) -> None:
    deployment = render(
        parse_topology(TOPOLOGY), StateDir(tmp_path / "new"), topology_file=Path("/t.yaml")
    )
    steps = [Step(action="start", key=each.key, label="") for each in deployment.daemons]
    facts = host_facts(deployment, steps, {}, lambda _: DISK_BYTES_MIN)
    assert set(facts.free_bytes) == {str(tmp_path)}
    check_room(facts)
