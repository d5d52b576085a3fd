"""What `up` on other hosts would refuse, as their supervisors find out there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from local_cluster.foreign_json import parse_json
from topology.deployment.deployment import Deployment
from topology.hosts.answers import Answer, one_line, refusal_of
from topology.hosts.asking import SPARE_S, ask_all, order

CHECK_TIMEOUT_S: Final = 20.0
"""A host starts a process for the check, which may wait for its ZooKeeper."""
LINES_MAX: Final = 50
"""Refusals, details of each, and warnings of a host that are told."""

JsonObject = dict[str, Any]
NOT_ASKED: Final[JsonObject] = {"refusals": None, "warnings": None, "unchecked": None}
"""Of a host that does not answer; its `reason` says why."""


def ask_checks(deployment: Deployment, answers: Mapping[str, Answer]) -> dict[str, JsonObject]:
    """Return `refusals`, `warnings` and `unchecked` of every host that answers.

    The first two are null if the host does not check the file; `unchecked` says why.
    """
    hosts = [host for host, answer in answers.items() if answer.state == "answers"]
    found = ask_all(lambda host: _ask(deployment, host), hosts, limit_s=CHECK_TIMEOUT_S + SPARE_S)
    return {host: _told(answer) for host, answer in found.items()}


def _ask(deployment: Deployment, host: str) -> Answer:
    body = {"deployment": deployment.name, "host": host, "file": deployment.file_text}
    response = order(deployment, host, "POST", "/check", body, timeout_s=CHECK_TIMEOUT_S)
    if isinstance(response, Answer):
        return response
    if response.status in (404, 405):
        return Answer(state="unusable", reason="its supervisor is of a version that cannot check")
    if response.status != 200:
        said = refusal_of(response.body) or f"HTTP status {response.status}"
        return Answer(state="unusable", reason=said)
    try:
        report = parse_json(response.body)
    except ValueError:
        report = None
    if not _is_report(report):
        return Answer(state="unusable", reason="its answer is not that of a check")
    return Answer(state="answers", report=report)


def _told(answer: Answer) -> JsonObject:
    report = answer.report
    if report is None:
        return {**NOT_ASKED, "unchecked": answer.reason}
    refusals = [
        {"reason": one_line(each["reason"]), "details": _lines(each["details"])}
        for each in report["refusals"][:LINES_MAX]
    ]
    return {"refusals": refusals, "warnings": _lines(report["warnings"]), "unchecked": None}


def _lines(texts: list[str]) -> list[str]:
    return [one_line(each) for each in texts[:LINES_MAX]]


def _is_report(report: Any) -> bool:
    return (
        isinstance(report, dict)
        and _are_texts(report.get("warnings"))
        and isinstance(report.get("refusals"), list)
        and all(
            isinstance(each, dict)
            and isinstance(each.get("reason"), str)
            and _are_texts(each.get("details"))
            for each in report["refusals"]
        )
    )


def _are_texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(each, str) for each in found)
