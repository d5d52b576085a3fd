"""What is wrong with a whole deployment, and what could be better. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from topology.hosts.fitness import DISK_BYTES_MIN, OPEN_FILES_MIN, clock_lines
from topology.why.cluster_causes import disk_causes, partition_causes, silence
from topology.why.facts import Cause, ClusterFacts, LinkFacts
from topology.why.link_causes import explain_link

PARTITIONS_SHOWN_MAX: Final = 20
"""Partitions of one cluster that are listed."""


class Finding(NamedTuple):
    """One thing to do."""

    subject: str
    code: str
    sentence: str
    remedy: str | None
    is_fault: bool
    """False for advice: everything works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFacts:
    """What is known about a deployment and its host."""

    status: Mapping[str, Any]
    clusters: Sequence[ClusterFacts]
    links: Sequence[LinkFacts]
    own_clusters: frozenset[str] = frozenset()
    """Clusters whose brokers the deployment runs."""
    plan: Sequence[str] = ()
    """What `up` would change now."""
    file_problem: str | None = None
    """Why the topology file is not valid any more."""
    open_files_max: int | None = None
    free_bytes: Mapping[str, int] = field(default_factory=dict)
    """Free bytes of the host's directories, by directory."""
    readable_secrets: Sequence[str] = ()
    """Files with secrets that every user of the host may read."""


def examine(facts: DoctorFacts) -> list[Finding]:
    """Return everything to do: faults first, then advice; each sentence once."""
    found = [
        *_processes(facts),
        *_host(facts),
        *(each for cluster in facts.clusters for each in _cluster(facts, cluster)),
        *(each for link in facts.links for each in _link(link)),
    ]
    unique = list({each.sentence: each for each in reversed(found)}.values())[::-1]
    return sorted(unique, key=lambda each: not each.is_fault)


def _processes(facts: DoctorFacts) -> Iterator[Finding]:
    for each in facts.status["problems"]:
        reason = f": {each['reason']}" if each["reason"] else ""
        yield Finding(each["subject"], "status", f"{each['state']}{reason}", each["remedy"], True)
    for each in facts.status["daemons"]:
        if each["state"] == "running" and each["restarts"]:
            yield Finding(
                each["label"],
                "restarted",
                f"{each['label']} was restarted {each['restarts']} times",
                f"see its log: {each['log']}",
                False,
            )
    if facts.file_problem is not None:
        yield Finding(
            "topology file", "file_invalid", facts.file_problem, "`heliograph validate`", True
        )
    for step in facts.plan:
        yield Finding(
            "topology file", "not_applied", f"the file differs from what runs: {step}",
            "`heliograph up` applies it", False,
        )  # fmt: skip


def _host(facts: DoctorFacts) -> Iterator[Finding]:
    limit = facts.open_files_max
    if limit is not None and limit < OPEN_FILES_MIN:
        yield Finding(
            "host", "open_files", f"a process may open {limit} files",
            f"raise the limit to {OPEN_FILES_MIN} or more (`ulimit -n`, LimitNOFILE)", False,
        )  # fmt: skip
    for directory, free in facts.free_bytes.items():
        if free < DISK_BYTES_MIN:
            yield Finding(
                "host", "disk_full", f"{directory} has {free} bytes left", "make room", True
            )
    clocks = {each["host"]: each["clock_ahead_ms"] or 0 for each in facts.status.get("hosts", ())}
    for line in clock_lines(clocks):
        yield Finding("host", "clock", line, "set the clocks by NTP", True)
    for path in facts.readable_secrets:
        yield Finding(
            "host", "readable_secret", f"every user of this host may read the secret in {path}",
            f"chmod 600 {path}", False,
        )  # fmt: skip


def _cluster(facts: DoctorFacts, cluster: ClusterFacts) -> Iterator[Finding]:
    subject = f"cluster {cluster.name}"
    silent = silence(cluster)
    if silent is not None:
        yield _finding(subject, silent)
        return
    causes = [
        cause
        for name, topic in sorted(cluster.topics.items())
        for cause in partition_causes(cluster, name, topic)
    ]
    for cause in causes[:PARTITIONS_SHOWN_MAX]:
        yield _finding(subject, cause._replace(is_fault=True))
    if len(causes) > PARTITIONS_SHOWN_MAX:
        more = len(causes) - PARTITIONS_SHOWN_MAX
        yield Finding(
            subject, "more_partitions", f"{more} more partitions of {cluster.name}",
            f"heliograph topic list --unhealthy -c {cluster.name}", True,
        )  # fmt: skip
    for cause in disk_causes(cluster):
        yield _finding(subject, cause)
    if cluster.name in facts.own_clusters and len(cluster.brokers) > 1:
        yield from _single_replicas(subject, cluster)


def _single_replicas(subject: str, cluster: ClusterFacts) -> Iterator[Finding]:
    single = [
        name
        for name, topic in sorted(cluster.topics.items())
        if any(len(part.replicas) == 1 for part in topic.partitions.values())
    ]
    if single:
        shown = ", ".join(single[:PARTITIONS_SHOWN_MAX])
        yield Finding(
            subject, "single_replica",
            f"{len(single)} topics of {cluster.name} have one replica: {shown}",
            "create topics with a replication factor of 3, so that a broker may be lost", False,
        )  # fmt: skip


def _link(link: LinkFacts) -> Iterator[Finding]:
    for cause in explain_link(link):
        if cause.is_fault:
            yield _finding(f"link {link.name}", cause)


def _finding(subject: str, cause: Cause) -> Finding:
    return Finding(subject, cause.code, cause.sentence, cause.remedy, cause.is_fault)


def doctor_document(findings: Sequence[Finding], *, checked: Mapping[str, int]) -> dict[str, Any]:
    """Return the findings, and how much was looked at."""
    return {
        "is_well": not any(each.is_fault for each in findings),
        "checked": dict(checked),
        "findings": [each._asdict() for each in findings],
    }


def doctor_lines(document: Mapping[str, Any]) -> list[str]:
    """Return the lines for people: each finding, and what to do about it."""
    lines = []
    for each in document["findings"]:
        mark = "fault" if each["is_fault"] else "advice"
        lines.append(f"{mark}: {each['subject']}: {each['sentence']}")
        if each["remedy"]:
            lines.append(f"    {each['remedy']}")
    looked = ", ".join(f"{count} {name}" for name, count in document["checked"].items())
    lines.append(f"{'well' if document['is_well'] else 'not well'}; looked at {looked}")
    return lines
