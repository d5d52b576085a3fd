"""Why a link does not copy, or is behind. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from topology.why.cluster_causes import disk_causes, silence
from topology.why.facts import Cause, LinkFacts, lag_words

NOT_RUNNING: Final = frozenset({"stopped", "restarting", "not_answering", "failed_to_start"})
MAP_UNWRITTEN_SECONDS_MAX: Final = 30.0
STOPPED_SHOWN_MAX: Final = 10

ELSEWHERE: Final = "elsewhere"
"""State of a link whose workers run on other hosts."""

REMEDIES: Final = {
    "out_of_range": "lengthen the source's retention; `on: {out_of_range: skip}` continues after"
    " the gap",
    "truncated": "`heliograph mirror repair` shows the ways to continue",
    "recreated": "`on: {recreated: skip}` continues with the new topic",
    "corrupt": "`on: {corrupt: skip}` continues after the batch; check the source's disks",
    "too_large": "raise max.message.bytes of the copy: `heliograph config set topic`",
    "unsupported_codec": "let the target accept the codec, or produce with another one",
    "timestamp": "raise message.timestamp.before.max.ms or after.max.ms of the copy",
    "rejected": "change the target's rule that the reason names",
    "unauthorized": "grant the right to the mirror's principal (docs/operations/rights.md)",
    "foreign": "stop the other producer; `heliograph mirror repair` shows the ways to continue",
    "target": "`heliograph mirror repair` shows the ways to continue",
    "internal": "report it with the worker's log",
}
"""What to do about each trouble of a partition (`mirror_maker/rules/trouble.py`)."""


def whole_link(link: LinkFacts) -> Iterator[Cause]:
    """Yield what stops every topic of a link, the root first."""
    for cluster in (link.source, link.target):
        silent = silence(cluster)
        if silent is not None:
            yield silent
    if link.state == ELSEWHERE:
        yield Cause(
            "worker_elsewhere",
            f"the worker of link {link.name} runs on another host: {link.reason}",
            "ask `heliograph why` there",
        )
    elif link.state in NOT_RUNNING or (link.worker is None and link.state != "unknown"):
        log = f", its log is {link.log}" if link.log else ""
        yield Cause(
            "worker_down",
            f"the worker of link {link.name} is {link.state}{log}",
            "`heliograph up` starts it",
        )
    elif link.worker is None:
        yield Cause("worker_unknown", f"no worker reports on link {link.name}", "see its log")
    worker = link.worker or {}
    if _part(None, None) in _paused(worker):
        yield Cause(
            "paused",
            f"an operator has paused link {link.name}",
            f"`heliograph mirror resume --link {link.name}`",
        )
    for right in worker.get("rights_missing") or ():
        yield Cause("right_missing", str(right), REMEDIES["unauthorized"])
    if link.state == "failed" and not worker.get("standing_still"):
        yield Cause("link_failed", f"link {link.name} has failed: {link.reason}", "see the reason")


def explain_link(link: LinkFacts) -> list[Cause]:
    """Return every reason why a link does not do its work, or is behind."""
    causes = [*whole_link(link)]
    worker = link.worker or {}
    stopped = [flow for flow in worker.get("flows") or () if is_stopped(flow)]
    for flow in stopped[:STOPPED_SHOWN_MAX]:
        causes.append(stopped_cause(link, flow))
    if len(stopped) > STOPPED_SHOWN_MAX:
        more = len(stopped) - STOPPED_SHOWN_MAX
        causes.append(Cause("more_stopped", f"{more} more partitions are stopped"))
    causes += disk_causes(link.source)
    causes += disk_causes(link.target)
    causes += _sync_failures(worker)
    causes += doubts(worker)
    if worker and not worker.get("partitions") and not worker.get("partitions_known"):
        names = ", ".join(link.settings.topics)
        causes.append(
            Cause("no_topics", f"no topic of {link.source.name} matches: {names}", "see `topics`")
        )
    causes += _behind(link, worker)
    return causes


def is_stopped(flow: Mapping[str, Any]) -> bool:
    """Return whether a partition copies nothing."""
    waits = flow["state"] == "STARTING" and flow["reason"] is not None
    return waits or flow["state"] in ("FAILED", "PAUSED", "SOURCE_GONE", "HELD")


def stopped_cause(link: LinkFacts, flow: Mapping[str, Any]) -> Cause:
    """Return why a partition copies nothing."""
    at = f"{flow['topic']}-{flow['partition']}"
    trouble = flow["trouble"]
    if flow["state"] == "HELD":
        return Cause(
            "paused",
            f"an operator has paused {at}",
            f"`heliograph mirror resume --link {link.name} --topic {flow['topic']}`",
        )
    if flow["state"] == "SOURCE_GONE":
        return Cause(
            "source_gone",
            f"{at}: topic {flow['topic']} does not exist on {link.source.name} at present",
            "it continues if the same topic is back; see `deletions` of the link for its copy",
        )
    reason = flow["reason"] or "the reason is unknown"
    retry = f"; then `heliograph mirror retry --link {link.name}`"
    if trouble is not None:
        return Cause(
            str(trouble), f"{at} is {flow['state']}: {reason}", REMEDIES[str(trouble)] + retry
        )
    return Cause("stopped", f"{at} is {flow['state']}: {reason}")


def doubts(worker: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield why it is doubted that copies are what their sources are."""
    audit = worker.get("audit") or {}
    for finding in audit.get("first_findings") or ():
        yield Cause("doubted", f"the audit found {finding}", "`heliograph audit --records`")
    if audit.get("failure"):
        yield Cause(
            "audit_failing", f"the audit does not run: {audit['failure']}", "see the reason"
        )
    unwritten = worker.get("map_unwritten_seconds") or 0
    if unwritten > MAP_UNWRITTEN_SECONDS_MAX:
        yield Cause(
            "map_unwritten",
            f"the offset map was not written for {unwritten:.0f} s: no position is translated",
            "check the map topic on the target: leader, replicas in sync, the right to write",
        )


def _sync_failures(worker: Mapping[str, Any]) -> Iterator[Cause]:
    for part, what in (
        ("groups", "groups are not synced"),
        ("topic_sync", "configs and ACLs are not synced"),
        ("rights_sync", "ACLs of groups and transactional ids, quotas or users are not synced"),
        ("deletions", "deletions are not mirrored"),
        ("source_group", "positions are not committed at the source"),
    ):
        failure = (worker.get(part) or {}).get("failure")
        if failure:
            yield Cause(f"{part}_failing", f"{what}: {failure}", "see the reason")
    for user in (worker.get("rights_sync") or {}).get("users_without_credentials") or ():
        yield Cause(
            "user_without_credentials",
            f"user {user} has rights from the link, and no SCRAM credentials on the target",
            "`heliograph user create` sets them; between clusters of ours `users` of the link does",
            is_fault=False,
        )


def _behind(link: LinkFacts, worker: Mapping[str, Any]) -> Iterator[Cause]:
    lag = worker.get("lag_records")
    if not lag:
        return
    seconds = worker.get("lag_seconds")
    behind = lag_words(lag, seconds)
    controls = worker.get("controls") or {}
    limits = []
    for side in ("source", "target"):
        rate = controls.get(f"{side}_bytes_per_second")
        if rate is None:
            rate = getattr(link.settings, f"{side}_bytes_per_second")
        if rate:
            limits.append(f"{rate} bytes per second at the {side}")
    if limits:
        yield Cause(
            "throttled",
            f"link {link.name} is {behind}, and throttled to {' and '.join(limits)}",
            f"`heliograph mirror throttle --link {link.name}` changes it; 0 is no limit",
            lag_seconds=seconds,
        )
    elif link.state in ("catching_up", "running"):
        yield Cause(
            "catching_up",
            f"link {link.name} is {behind}, and copies",
            is_fault=link.state == "catching_up",
            lag_seconds=seconds,
        )


def _paused(worker: Mapping[str, Any]) -> set[tuple[str | None, int | None]]:
    parts = (worker.get("controls") or {}).get("paused") or ()
    return {_part(each["topic"], each["partition"]) for each in parts}


def _part(topic: str | None, partition: int | None) -> tuple[str | None, int | None]:
    return topic, partition


def is_paused(link: LinkFacts, topic: str) -> bool:
    """Return whether an operator has paused a topic, all of it."""
    return (topic, None) in _paused(link.worker or {})
