"""Read the audit's verdicts on every link, and judge them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from tests.referee.audit_reading import AUDIT_SECONDS_MAX, LinkVerdicts, Place, read_audit
from tests.referee.checks.audit import ALARMS, check_audit, copies_end
from tests.referee.checks.copy import Fault, copy_faults
from tests.referee.checks.finding import Judgement, Promise
from tests.referee.checks.flow_truth import FlowTruth
from tests.referee.history import Flow, Partition
from tests.referee.modes import LinkShape, is_shared
from tests.referee.offset_judging import Urls
from tests.referee.plan import Plan

SETTLE_ROUNDS: Final = 8
SETTLE_SECONDS: Final = 3.0
"""Verdicts are published and followed within some seconds: wrong ones are read again."""


def judge_audit(
    plan: Plan,
    urls: Urls,
    truths: Sequence[FlowTruth],
    foreign: Mapping[Partition, Sequence[Fault]],
) -> Judgement:
    """Judge the audit of every link; `foreign` is by target partition. Raises ApiUnavailable."""
    judgement = Judgement()
    for link in plan.shape.links:
        of_link = [truth for truth in truths if truth.flow.link == link.name]
        faults = {truth.flow: list(copy_faults(truth)) for truth in of_link}
        seconds_max = AUDIT_SECONDS_MAX
        for last in range(SETTLE_ROUNDS, -1, -1):
            audit = read_audit(urls[link.target], link.name, _ends(of_link), seconds_max)
            judged = _judge_link(plan, link, of_link, faults, foreign, audit)
            if not judged.findings or not last:
                judgement.add(judged)
                break
            seconds_max = 0.0
            time.sleep(SETTLE_SECONDS)
    return judgement


def _ends(truths: Sequence[FlowTruth]) -> dict[Place, int]:
    """The target offsets that the audit must reach."""
    found = {(each.flow.source.topic, each.flow.source.number): copies_end(each) for each in truths}
    return {place: end for place, end in found.items() if end is not None}


def _judge_link(
    plan: Plan,
    link: LinkShape,
    truths: Sequence[FlowTruth],
    faults: Mapping[Flow, Sequence[Fault]],
    foreign: Mapping[Partition, Sequence[Fault]],
    audit: LinkVerdicts,
) -> Judgement:
    judgement = Judgement()
    for hindrance in audit.hindrances:
        judgement.find(Promise.AUDIT, "hindered", link.name, hindrance)
    for truth in truths:
        flow = truth.flow
        is_alone = not is_shared(plan.mode, link, flow.source.topic)
        judgement.add(
            check_audit(
                truth,
                faults[flow],
                foreign[flow.target] if is_alone else (),
                audit.partitions.get((flow.source.topic, flow.source.number)),
            )
        )
    rows = [row for part in audit.partitions.values() for row in part.rows]
    has_alarms = any(row.verdict in ALARMS for row in rows)
    if audit.is_well == has_alarms and audit.problem is None:
        text = f"is_well is {audit.is_well}, rows with faults: {has_alarms}"
        judgement.find(Promise.AUDIT, "contradicts itself", link.name, text)
    return judgement
