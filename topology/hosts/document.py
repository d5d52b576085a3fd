"""The `hosts` of a status and a plan: one entry for each other host of the deployment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from topology.deployment.deployment import Deployment
from topology.deployment.state_dir import StateDir
from topology.hosts.answers import Answer
from topology.hosts.asking import ask_hosts, other_hosts
from topology.hosts.standing import standing_of
from topology.shared_file.agreement import FileState

JsonObject = dict[str, Any]


def ask_other_hosts(deployment: Deployment) -> dict[str, Answer]:
    """Return the answer of every other host; empty without `supervisors` in the topology."""
    if deployment.supervisors is None:
        return {}
    return ask_hosts(deployment, other_hosts(deployment))


def status_of_hosts(
    deployment: Deployment, answers: Mapping[str, Answer], shared: FileState | None
) -> list[JsonObject]:
    """Return what runs on each host; unknown values are null."""
    return [
        {**_entry(deployment, host, answer, shared), "daemons": list(_daemons(host, answer))}
        for host, answer in answers.items()
    ]


def plan_of_hosts(
    deployment: Deployment,
    state: StateDir,
    answers: Mapping[str, Answer],
    shared: FileState | None,
    checks: Mapping[str, JsonObject],
) -> list[JsonObject]:
    """Return the steps of `up` on each host, and what it refuses; null if they are unknown."""
    if not answers:
        return []
    from topology.hosts.plan import PlansOfHosts
    from topology.hosts.refusals import NOT_ASKED

    plans = PlansOfHosts(deployment, state)
    found = []
    for host, answer in answers.items():
        steps = plans.steps(host, answer)
        entry = _entry(deployment, host, answer, shared)
        shown = None if steps is None else [step.as_json() for step in steps]
        found.append({**entry, "steps": shown, **checks.get(host, NOT_ASKED)})
    return found


def _entry(
    deployment: Deployment, host: str, answer: Answer, shared: FileState | None
) -> JsonObject:
    report = answer.report or {}
    file, generation = None, None
    if answer.report is not None:
        newest = None if shared is None else shared.newest
        file, generation = standing_of(report["file"], newest, deployment.file_text)
    ports = deployment.supervisors
    return {
        "host": host,
        "url": None if ports is None else ports.url(host),
        "state": answer.state,
        "reason": answer.reason,
        "pid": report.get("pid"),
        "version": report.get("version"),
        "stopping": report.get("stopping"),
        "clock_ahead_ms": answer.clock_ahead_ms,
        "file": file,
        "generation": generation,
    }


def _daemons(host: str, answer: Answer) -> Iterator[JsonObject]:
    """Yield the daemons of a host; one machine may be several hosts of the file."""
    for row in answer.daemons:
        if row["host"] == host:
            shown = ("key", "role", "label", "version", "pid", "restarts", "exit_code", "log")
            yield {**{key: row.get(key) for key in shown}, "state": row["phase"]}
