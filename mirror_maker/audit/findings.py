"""Findings of the audit in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from local_cluster.client.model import TopicPartition
from mirror_maker.formats.verdicts import Finding


def describe_finding(source: TopicPartition, finding: Finding) -> str:
    """Return one sentence with the finding's offsets."""
    last = finding.target_to - 1
    offsets = (
        f"{finding.target_from}"
        if last <= finding.target_from
        else (f"{finding.target_from}..{last}")
    )
    return f"{source}: {finding.verdict} at target offset {offsets}: {finding.detail}"


def describe_findings(findings: Iterable[tuple[TopicPartition, Finding]]) -> str | None:
    """Return the first finding and the number of others; None if there is none."""
    known = list(findings)
    if not known:
        return None
    more = f", and {len(known) - 1} more" if len(known) > 1 else ""
    return f"the audit found {describe_finding(*known[0])}{more}"
