"""The exit code of `status`, and what it shows of gaps and of an operator's orders."""

from __future__ import annotations

from typing import Any

import pytest

from topology.status.exit_codes import status_exit_code
from topology.status.held_back import held_back, held_back_lines

RUNS = {"state": "running"}
HOST = {"state": "answers", "daemons": [RUNS]}
LINK = {"name": "jfk-nyc", "gaps": 0, "paused": [], "throttle": {}}
PART = {"topic": "t", "partition": None}


def document(**changes: Any) -> dict[str, Any]:
    return {"state": "running", "links": [LINK], "hosts": [HOST], **changes}


SILENT = {"state": "unreachable", "daemons": []}
STARTS = {"state": "answers", "daemons": [RUNS, {"state": "starting"}]}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"links": [{**LINK, "gaps": None, "paused": None, "throttle": None}]}, 0),
        ({"hosts": [HOST, SILENT]}, 6),
        ({"hosts": [STARTS]}, 6),
        ({"links": [LINK, {**LINK, "gaps": 2}]}, 7),
        ({"links": [{**LINK, "paused": [PART]}]}, 8),
        ({"links": [{**LINK, "throttle": {"source": 9}}]}, 8),
        ({"links": [{**LINK, "gaps": 2, "paused": [PART]}]}, 7),
        ({"links": [{**LINK, "gaps": 2}], "hosts": [SILENT]}, 6),
    ],
)
def test_each_has_its_code_for_those_who_ask_for_it(changes: dict[str, Any], code: int) -> None:
    assert status_exit_code(document(**changes), is_detailed=True) == code
    assert status_exit_code(document(**changes), is_detailed=False) == 0
    for state in ("degraded", "starting", "waiting", "stopped"):
        for is_detailed in (True, False):
            found = document(**changes, state=state)
            assert status_exit_code(found, is_detailed=is_detailed) == 4


def test_a_deployment_without_supervisors_of_other_hosts_has_none_to_count() -> None:
    assert status_exit_code({"state": "running", "links": []}, is_detailed=True) == 0


def test_what_a_worker_reports_and_what_is_unknown() -> None:
    controls = {
        "paused": [PART],
        "source_bytes_per_second": 1_000,
        "target_bytes_per_second": None,
    }
    assert held_back({"gaps": 3, "controls": controls}) == {
        "gaps": 3,
        "paused": [PART],
        "throttle": {"source": 1_000},
    }
    unlimited = {"paused": [], "source_bytes_per_second": 0, "target_bytes_per_second": 0}
    assert held_back({"gaps": 0, "controls": unlimited})["throttle"] == {}
    assert held_back({}) == {"gaps": None, "paused": None, "throttle": None}


def test_people_read_a_line_for_each() -> None:
    paused = [PART, {"topic": "t", "partition": 3}, {"topic": None, "partition": None}]
    link = {"name": "jfk-nyc", "gaps": 2, "paused": paused, "throttle": {"target": 9}}
    assert [*held_back_lines(link)] == [
        "link jfk-nyc has 2 gaps: `heliograph gaps` lists what was not copied",
        "link jfk-nyc: an operator has paused topic t",
        "link jfk-nyc: an operator has paused partition t-3",
        "link jfk-nyc: an operator has paused all of it",
        "link jfk-nyc: an operator has set 9 bytes per second at the target",
    ]
    assert [*held_back_lines(LINK)] == [*held_back_lines({"name": "x", **held_back({})})] == []
