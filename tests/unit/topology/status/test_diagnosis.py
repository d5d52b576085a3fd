"""The reported problems of a deployment."""

from __future__ import annotations

from typing import Any

from tests.unit.topology.status.test_document import ALL, DEPLOYMENT, report, row
from topology.status.diagnosis import diagnose, problem_lines
from topology.status.document import assemble_status


def standing(partition: int, state: str = "FAILED", trouble: str = "recreated") -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": partition,
        "state": state,
        "trouble": trouble,
        "reason": f"orders-{partition} was deleted and re-created",
    }


def lines(**link: Any) -> list[str]:
    said = {"l": {"name": "l", **link}}
    return problem_lines(assemble_status(DEPLOYMENT, report(*ALL), said)["problems"])


def test_a_failed_partition_is_named_with_its_trouble_and_what_to_do() -> None:
    reason = "orders-0 is FAILED (recreated): orders-0 was deleted and re-created"
    assert lines(state="DEGRADED", reason=reason, standing_still=[standing(0)]) == [
        f"link l: degraded: {reason}",
        "    fix the cause, then `heliograph mirror retry --link l`; or skip the gap: set "
        "`on: {recreated: skip}` for the link in /d.yaml, and run `up`",
    ]


def test_the_other_partitions_follow_and_the_rest_is_counted() -> None:
    still = [standing(0), standing(1, "PAUSED", "unauthorized")]
    reason = "orders-0 is FAILED (recreated): orders-0 was deleted and re-created"
    said = lines(state="DEGRADED", reason=reason, standing_still=still, standing_still_more=7)
    assert said[2:] == [
        "link l, orders-1: paused (unauthorized): orders-1 was deleted and re-created",
        "link l: degraded: 7 more partitions are stopped; `/status` of its mirror worker lists "
        "them all",
    ]


def test_no_skip_is_offered_for_a_trouble_that_cannot_be_skipped() -> None:
    still = [standing(0, trouble="target")]
    assert "skip" not in "".join(lines(state="FAILED", reason=None, standing_still=still))


def test_a_supervisor_that_other_hosts_cannot_ask_is_a_problem() -> None:
    told = {**report(*ALL), "port_problem": "its HTTP on 10.0.0.1:9990 cannot be opened: in use"}
    links = {"l": {"name": "l", "state": "RUNNING"}}
    document = assemble_status(DEPLOYMENT, told, links)
    assert document["state"] == "degraded"
    assert document["supervisor"]["problem"] == told["port_problem"]
    (first, _) = problem_lines(document["problems"])
    assert first == (
        "supervisor: degraded: other hosts cannot ask it: its HTTP on 10.0.0.1:9990 cannot be"
        " opened: in use"
    )
    assert assemble_status(DEPLOYMENT, report(*ALL), links)["state"] == "running"


def test_a_held_link_can_be_resumed() -> None:
    assert lines(state="HELD", reason="an operator has paused it") == [
        "link l: held: an operator has paused it",
        "    `heliograph mirror resume --link l` resumes it",
    ]


def test_a_cluster_that_is_down_is_waited_for() -> None:
    assert lines(state="TARGET_DOWN", reason="no answer for 6 s") == [
        "link l: target_down: no answer for 6 s",
        "    it continues by itself when cluster ewr answers",
    ]


def test_a_daemon_that_keeps_ending_is_said_with_its_log() -> None:
    rows = (row("b", "broker", "restarting", restarts=3, exit_code=1), *ALL[1:])
    said = {"l": {"name": "l", "state": "RUNNING"}}
    (problem,) = assemble_status(DEPLOYMENT, report(*rows), said)["problems"]
    assert problem_lines([problem]) == [
        "b: restarting: it ended 3 times, last with exit code 1",
        "    its log: /b.log",
    ]


def test_up_is_the_remedy_without_a_process_or_a_supervisor() -> None:
    unsupervised = {**report(*ALL[:2]), "pid": None}
    document = assemble_status(DEPLOYMENT, unsupervised, {"l": {"name": "l", "state": "RUNNING"}})
    assert document["state"] == "unsupervised"
    found = diagnose(DEPLOYMENT, document)
    assert [each.subject for each in found] == ["supervisor", "g"]
    assert all("heliograph up /d.yaml" in (each.remedy or "") for each in found)


def test_all_is_well() -> None:
    said = {"l": {"name": "l", "state": "CATCHING_UP"}}
    assert assemble_status(DEPLOYMENT, report(*ALL), said)["problems"] == []
