"""The audit has no false finding, and counts what is there."""

from __future__ import annotations

from mirror_maker.formats.gaps import GapKind
from mirror_maker.formats.verdicts import FAULTS, Tally, Verdict
from tests.sim.cluster.names import Anomaly
from tests.sim.mirror_product.evidence import Copies, LinkEvidence


def judge_audit(link: LinkEvidence, copies: Copies) -> None:
    """Judge the verdicts about the existing incarnation of a partition. Raises Anomaly."""
    flow = link.flow(copies.source)
    if flow is None:
        return
    where = f"{link.link.name} {copies.source.at}"
    verdicts = link.verdicts_of(flow)
    told: dict[Verdict, Tally] = {}
    for bucket in verdicts.buckets().values():
        for verdict, tally in bucket.items():
            told[verdict] = told[verdict].plus(tally) if verdict in told else tally
    if verdicts.findings or told.keys() & FAULTS:
        raise Anomaly(f"{where}: a finding: {told} {list(verdicts.findings.values())[:3]}")
    hidden = sum(gap.copied_count or 0 for gap in link.entries(copies.source, GapKind.COPIED))
    counts = {verdict: tally.records_count for verdict, tally in told.items()}
    complete = counts.pop(Verdict.COMPLETE, 0)
    unverified = counts.pop(Verdict.UNVERIFIED, 0)
    if complete + unverified != len(copies.places) or unverified > hidden:
        raise Anomaly(
            f"{where}: {complete} COMPLETE and {unverified} UNVERIFIED of {len(copies.places)} "
            f"copies, {hidden} of them without a source: {told}"
        )
    foreign = {
        offset
        for gap in link.entries(copies.source, GapKind.FOREIGN)
        for offset in range(gap.target_offset, gap.target_to or 0)
    }
    if counts.pop(Verdict.EXPECTED_GAP, 0) != len(foreign) or counts:
        raise Anomaly(f"{where}: {told}, {len(foreign)} foreign records are in the journal")
    if told.get(Verdict.COMPLETE) and not hidden and not unverified:
        tally = told[Verdict.COMPLETE]
        first, last = copies.places[0], copies.places[-1]
        bounds = (tally.source_from, tally.source_to, tally.target_from, tally.target_to)
        if bounds != (first[0], last[0] + 1, first[1], last[1] + 1):
            raise Anomaly(f"{where}: {tally}, but copies are {first} to {last}")
