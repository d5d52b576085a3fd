"""The problems of a deployment: state, reason, remedy. Pure.

They are derived from the status document, so `status` and `up` report the same, to people and to
programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from mirror_maker.rules.trouble import Trouble
from topology.deployment.deployment import Deployment
from topology.ensemble.nodes import Unfinished

LINK_RUNS: Final = frozenset({"running", "catching_up"})
"""States of a link that does its work, at the end of its source or catching up."""

SKIPPABLE: Final = frozenset(Trouble) - {Trouble.UNAUTHORIZED, Trouble.TARGET, Trouble.INTERNAL}
"""Troubles for which a link's `on:` may have `skip`."""

REPAIRABLE: Final = frozenset({Trouble.FOREIGN, Trouble.TARGET, Trouble.TRUNCATED})
"""Troubles that `heliograph mirror repair` may repair."""


ELSEWHERE: Final = "elsewhere"
"""State of a link whose workers run on other hosts."""

OTHER_HOSTS: Final = "it continues by itself when they run: `heliograph up` on those hosts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A part of the deployment that does not do its work."""

    subject: str
    """Name for people: broker 1 of ewr; link jfk-nyc."""
    state: str
    reason: str | None = None
    """Null if it is unknown."""
    remedy: str | None = None
    """What to do about it; null if it recovers by itself, or if no remedy is known."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def diagnose(deployment: Deployment, document: Mapping[str, Any]) -> list[Problem]:
    """Return every problem of a deployment that should run, processes first: links need them."""
    if document["state"] == "stopped":
        return [
            Problem(
                subject=f"deployment {deployment.name}",
                state="stopped",
                reason="nothing of it runs",
                remedy=f"heliograph up {deployment.topology_file}",
            )
        ]
    return [
        *_supervisor(deployment, document),
        *_missing(deployment, document),
        *(_daemon(each) for each in document["daemons"] if each["state"] != "running"),
        *_clusters(document),
        *_links(deployment, document),
    ]


def diagnose_growth(topology_file: str, unfinished: Sequence[Unfinished]) -> list[Problem]:
    """Return a problem for each ensemble whose members are not those of the file."""
    return [
        Problem(
            subject=f"ZooKeeper {each.name}",
            state="growing",
            reason="; ".join(each.lines()),
            remedy=OTHER_HOSTS
            if each.needs_other_hosts
            else f"heliograph up {topology_file} makes the next step",
        )
        for each in unfinished
    ]


def problem_lines(problems: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line per problem with its reason, and the remedy on a further line."""
    lines: list[str] = []
    for each in problems:
        reason = f": {each['reason']}" if each["reason"] else ""
        lines.append(f"{each['subject']}: {each['state']}{reason}")
        if each["remedy"]:
            lines.append(f"    {each['remedy']}")
    return lines


def _supervisor(deployment: Deployment, document: Mapping[str, Any]) -> Iterator[Problem]:
    if document["state"] == "unsupervised":
        yield Problem(
            subject="supervisor",
            state="stopped",
            reason="nothing restarts what ends",
            remedy=f"heliograph up {deployment.topology_file} takes over what runs, untouched",
        )
    elif (problem := (document["supervisor"] or {}).get("problem")) is not None:
        yield Problem(
            subject="supervisor",
            state="degraded",
            reason=f"other hosts cannot ask it: {problem}",
            remedy="it tries again by itself; `bind: 0.0.0.0` in `supervisors` is for hosts behind"
            " NAT",
        )


def _missing(deployment: Deployment, document: Mapping[str, Any]) -> Iterator[Problem]:
    known = {each["key"] for each in document["daemons"]}
    for daemon in deployment.daemons:
        if daemon.key not in known:
            yield Problem(
                subject=daemon.label,
                state="stopped",
                reason="it has no process",
                remedy=f"heliograph up {deployment.topology_file}",
            )


def _daemon(each: Mapping[str, Any]) -> Problem:
    if each.get("waits_for"):
        return Problem(
            subject=each["label"], state=each["state"], reason=each["reason"], remedy=OTHER_HOSTS
        )
    state, log = each["state"], f"its log: {each['log']}"
    reason, remedy = each["reason"], log
    if state == "not_answering":
        remedy = (
            f"if process {each['pid']} was stopped, `kill -CONT {each['pid']}` continues it; "
            f"if it hangs, `kill -9 {each['pid']}` restarts it; {log}"
        )
    elif state == "restarting":
        reason = f"it ended {each['restarts']} times, last with exit code {each['exit_code']}"
    elif each["restarts"]:
        reason = f"it has ended {each['restarts']} times"
    return Problem(subject=each["label"], state=state, reason=reason, remedy=remedy)


def _clusters(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the external clusters that do not respond; our own brokers are daemons."""
    for cluster in document["clusters"]:
        if cluster["kind"] == "external" and cluster["reason"] is not None:
            yield Problem(
                subject=f"cluster {cluster['name']}",
                state="not_answering",
                reason=cluster["reason"],
                remedy="check that it runs and can be reached from this host",
            )


def _links(deployment: Deployment, document: Mapping[str, Any]) -> Iterator[Problem]:
    for link in document["links"]:
        if link["state"] in LINK_RUNS or link["state"] == ELSEWHERE:
            continue
        if link.get("waits_for"):
            yield Problem(
                subject=f"link {link['name']}",
                state=link["state"],
                reason=link["waits_for"],
                remedy=OTHER_HOSTS,
            )
            continue
        yield Problem(
            subject=f"link {link['name']}",
            state=link["state"],
            reason=link["reason"],
            remedy=_link_remedy(link, deployment.topology_file),
        )
        for index, each in enumerate(link["standing_still"]):
            if index == 0 and each["reason"] is not None and each["reason"] in str(link["reason"]):
                continue  # the link's reason is about this one
            trouble = f" ({each['trouble']})" if each["trouble"] else ""
            yield Problem(
                subject=f"link {link['name']}, {each['topic']}-{each['partition']}",
                state=f"{each['state'].lower()}{trouble}",
                reason=each["reason"],
            )
        if link["standing_still_more"]:
            yield Problem(
                subject=f"link {link['name']}",
                state=link["state"],
                reason=f"{link['standing_still_more']} more partitions are stopped; `/status` of "
                "its mirror worker lists them all",
            )


def _link_remedy(link: Mapping[str, Any], file: str) -> str | None:
    name, state = link["name"], link["state"]
    if state == "held":
        return f"`heliograph mirror resume --link {name}` resumes it"
    if state in ("source_down", "target_down"):
        cluster = link[state.removesuffix("_down")]
        return f"it continues by itself when cluster {cluster} answers"
    failed = [each for each in link["standing_still"] if each["state"] == "FAILED"]
    if failed:
        trouble = failed[0]["trouble"]
        skip = (
            f"; or skip the gap: set `on: {{{trouble}: skip}}` for the link in {file}, and run `up`"
            if trouble in SKIPPABLE
            else ""
        )
        at = f"{failed[0]['topic']} {failed[0]['partition']}"
        repair = (
            f"; `heliograph mirror repair {name} {at}` shows how its copy can be repaired"
            if trouble in REPAIRABLE
            else ""
        )
        return f"fix the cause, then `heliograph mirror retry --link {name}`{skip}{repair}"
    if any(each["state"] == "PAUSED" for each in link["standing_still"]):
        return (
            "fix the cause; it is retried by itself, and at once with "
            f"`heliograph mirror retry --link {name}`"
        )
    return None
