"""The figures and findings of a run, as text and as JSON. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.referee.checks.finding import EXAMPLES_MAX, Finding, Judgement

TOPICS: Final[Mapping[str, tuple[str, ...]]] = {
    "played": ("lives", "links", "records sent", "transactions"),
    "faults": ("kill", "freeze"),
    "topic operations": ("overtaken", "re-created", "grown", "operations"),
    "records": ("source records", "target records", "records compared", "not copied", "copies"),
    "journal": ("journal",),
    "stops": ("undecided tails",),
    "translation": ("offsets translated",),
    "groups": ("group",),
    "audit": ("audit",),
}
"""What figures are listed together, by how their names begin."""


def figures_table(figures: Counter[str]) -> str:
    """Every figure, those of one topic together."""
    lines: list[str] = []
    listed: set[str] = set()
    for title, beginnings in TOPICS.items():
        names = [name for name in sorted(figures) if name.startswith(beginnings)]
        listed.update(names)
        if names:
            lines += ["", title]
            lines += [f"  {name:<44} {figures[name]:>10,}" for name in names]
    others = [name for name in sorted(figures) if name not in listed]
    if others:
        lines += ["", "others", *(f"  {name:<44} {figures[name]:>10,}" for name in others)]
    return "\n".join(lines).lstrip("\n")


def findings_text(findings: Sequence[Finding]) -> str:
    """Findings by promise, kind and place; of many alike some are shown."""
    if not findings:
        return "no findings"
    kinds = Counter((each.promise, each.kind) for each in findings)
    lines = [f"{len(findings)} findings:"]
    lines += [f"  {count} {promise}: {kind}" for (promise, kind), count in kinds.most_common()]
    shown: Counter[tuple[str, str]] = Counter()
    for each in findings:
        shown[each.promise, each.kind] += 1
        if shown[each.promise, each.kind] <= EXAMPLES_MAX:
            lines += ["", str(each)]
    return "\n".join(lines)


def as_json(
    arguments: Mapping[str, Any], lives: Mapping[str, Judgement], total: Judgement
) -> dict[str, Any]:
    """The whole run, with every finding."""
    return {
        **arguments,
        "figures": dict(sorted(total.figures.items())),
        "lives": {
            name: {
                "figures": dict(sorted(each.figures.items())),
                "findings": [_finding(finding) for finding in each.findings],
            }
            for name, each in lives.items()
        },
        "findings": len(total.findings),
    }


def _finding(finding: Finding) -> dict[str, str]:
    return {
        "promise": str(finding.promise),
        "kind": finding.kind,
        "where": finding.where,
        "text": finding.text,
    }
