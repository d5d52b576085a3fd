"""What is not well in a deployment, why, and what to do about it. Pure.

Read from the status document, so that `status` and `up` say the same, to people and to programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from mirror_maker.rules.trouble import Trouble
from topology.deployment.deployment import Deployment

LINK_RUNS: Final = frozenset({"running", "catching_up"})
"""States of a link that does its work, at the end of its source or on the way there."""

SKIPPABLE: Final = frozenset(Trouble) - {Trouble.UNAUTHORIZED, Trouble.TARGET, Trouble.INTERNAL}
"""Troubles for which a link's `on:` may say `skip`."""

REPAIRABLE: Final = frozenset({Trouble.FOREIGN, Trouble.TARGET, Trouble.TRUNCATED})
"""Troubles that `heliograph mirror repair` may mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that does not do its work."""

    subject: str
    """What people call it: broker 1 of ewr; link jfk-nyc."""
    state: str
    reason: str | None = None
    """Null where nobody knows it."""
    remedy: str | None = None
    """What a person can do; null where it mends itself or nobody can tell."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def diagnose(deployment: Deployment, document: Mapping[str, Any]) -> list[Problem]:
    """Every problem of a deployment that should run: processes first, as the rest needs them."""
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


def problem_lines(problems: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is not well and why, a line each, with what to do on a line of its own."""
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
    state, log = each["state"], f"its log: {each['log']}"
    reason, remedy = each["reason"], log
    if state == "not_answering":
        remedy = (
            f"if somebody stopped process {each['pid']}, `kill -CONT {each['pid']}` lets it go on; "
            f"if it hangs, `kill -9 {each['pid']}` has it started again; {log}"
        )
    elif state == "restarting":
        reason = f"it ended {each['restarts']} times, last with exit code {each['exit_code']}"
    elif each["restarts"]:
        reason = f"it has ended {each['restarts']} times"
    return Problem(subject=each["label"], state=state, reason=reason, remedy=remedy)


def _clusters(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Existing clusters only: brokers of ours are daemons."""
    for cluster in document["clusters"]:
        if cluster["kind"] == "external" and cluster["reason"] is not None:
            yield Problem(
                subject=f"cluster {cluster['name']}",
                state="not_answering",
                reason=cluster["reason"],
                remedy="see that it runs, and can be reached from this machine",
            )


def _links(deployment: Deployment, document: Mapping[str, Any]) -> Iterator[Problem]:
    for link in document["links"]:
        if link["state"] in LINK_RUNS:
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
                reason=f"{link['standing_still_more']} more partitions stand still; `/status` of "
                "its mirror worker has them all",
            )


def _link_remedy(link: Mapping[str, Any], file: str) -> str | None:
    name, state = link["name"], link["state"]
    if state == "held":
        return f"`heliograph mirror resume --link {name}` lets it go on"
    if state in ("source_down", "target_down"):
        cluster = link[state.removesuffix("_down")]
        return f"it goes on by itself when cluster {cluster} answers"
    failed = [each for each in link["standing_still"] if each["state"] == "FAILED"]
    if failed:
        trouble = failed[0]["trouble"]
        skip = (
            f"; or have it leave a gap: `on: {{{trouble}: skip}}` of the link in {file}, and `up`"
            if trouble in SKIPPABLE
            else ""
        )
        at = f"{failed[0]['topic']} {failed[0]['partition']}"
        repair = (
            f"; `heliograph mirror repair {name} {at}` says how its copy can be repaired"
            if trouble in REPAIRABLE
            else ""
        )
        return f"settle the cause, then `heliograph mirror retry --link {name}`{skip}{repair}"
    if any(each["state"] == "PAUSED" for each in link["standing_still"]):
        return (
            "settle the cause; it is tried again by itself, and at once with "
            f"`heliograph mirror retry --link {name}`"
        )
    return None
