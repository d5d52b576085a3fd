"""The audit's verdicts, from /api/v1/audit of the aggregators."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.referee import api
from tests.referee.checks.audit_verdicts import PartitionVerdicts, Span, Verdict

AUDIT_SECONDS_MAX: Final = 300.0
"""How long the audit may take to read back what was copied, once the mirrors have caught up."""
POLL_SECONDS: Final = 1.0
AUDIT: Final = "/api/v1/audit"

Place = tuple[str, int]
"""Source topic and partition."""


@dataclass(frozen=True, slots=True)
class LinkVerdicts:
    """The audit of a link."""

    is_well: bool
    problem: str | None
    """Why it is not known, or not to its end."""
    failures: Mapping[str, str | None]
    """What hinders the audit of a worker, by worker."""
    partitions: Mapping[Place, PartitionVerdicts]

    @property
    def hindrances(self) -> list[str]:
        """In the audit's own words; none while it runs well."""
        found = [f"worker {name}: {why}" for name, why in self.failures.items() if why is not None]
        return found if self.problem is None else [*found, self.problem]


def read_audit(
    url: str, link: str, ends: Mapping[Place, int], seconds_max: float = AUDIT_SECONDS_MAX
) -> LinkVerdicts:
    """The verdicts on a link, once they have reached these target offsets or the time is over.

    Raises ApiUnavailable."""
    deadline = time.monotonic() + seconds_max
    document = _link(url, {"link": link})
    while not _has_reached(document, ends) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        document = _link(url, {"link": link})
    parts = [
        part
        for topic in sorted({each["topic"] for each in document["partitions"]})
        # Rows that are no fault are told of a named topic only.
        for part in _link(url, {"link": link, "topic": topic})["partitions"]
    ]
    return LinkVerdicts(
        document["is_well"],
        document["problem"],
        {each["worker_id"]: each["failure"] for each in document["auditors"]},
        {(part["topic"], part["partition"]): verdicts_of(link, part) for part in parts},
    )


def _has_reached(document: Mapping[str, Any], ends: Mapping[Place, int]) -> bool:
    parts = {(each["topic"], each["partition"]): each for each in document["partitions"]}
    return all(
        place in parts
        and (parts[place]["audited_to"] or 0) >= end
        and not parts[place]["batches_waiting"]
        for place, end in ends.items()
    )


def _link(url: str, query: api.Query) -> dict[str, Any]:
    (document,) = api.get(url, AUDIT, query)["links"]
    return dict(document)


def verdicts_of(link: str, part: Mapping[str, Any]) -> PartitionVerdicts:
    """From one of `partitions` of the document."""
    return PartitionVerdicts(
        link=link,
        topic=part["topic"],
        partition=part["partition"],
        audited_from=part["audited_from"],
        audited_to=part["audited_to"],
        waiting=part["batches_waiting"],
        rows=tuple(_span(row, row["reason"]) for row in part["rows"]),
        findings=tuple(_span(each, each["detail"]) for each in part["findings"]),
    )


def _span(said: Mapping[str, Any], text: str | None) -> Span:
    return Span(
        verdict=Verdict(said["verdict"]),
        start_ms=said["start_ms"],
        records_count=said["records"],
        source_from=said["source_from"],
        source_to=said["source_to"],
        target_from=said["target_from"],
        target_to=said["target_to"],
        text=text or "",
    )
