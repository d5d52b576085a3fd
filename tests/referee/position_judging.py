"""Read positions of consumer groups on both sides, and judge those on the targets."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from tests.referee import api
from tests.referee.admin import Admin
from tests.referee.checks.finding import Judgement
from tests.referee.checks.flow_truth import FlowTruth
from tests.referee.checks.group_reading import ComesTo, may_be_missing, need_only_be_safe, reads
from tests.referee.checks.groups import GroupPosition, check_group
from tests.referee.checks.translation import Answer, ForwardCheck
from tests.referee.history import Log, Partition, Written
from tests.referee.load import GROUPS, group_name, group_states
from tests.referee.modes import Mode
from tests.referee.offset_judging import Urls
from tests.referee.plan import Plan

SETTLE_ROUNDS: Final = 10
SETTLE_SECONDS: Final = 2.0
"""Positions follow within a second or so: a wrong one is read again."""

Positions = Mapping[tuple[str, int], int]
"""By topic and partition."""


def judge_positions(
    plan: Plan,
    admins: Mapping[str, Admin],
    logs: Mapping[Partition, Log],
    truths: Sequence[FlowTruth],
    born: Mapping[str, Written],
) -> Judgement:
    """Judge the positions of every group that committed at a source. Raises AdminGaveUp."""
    judgement = Judgement()
    comes_to = _arrivals(plan, born)
    holed = {truth.flow.target for truth in truths if truth.current_holes}
    states = {str(state) for state in group_states(plan)}
    for target in plan.shape.targets:
        for group, sources in _groups_of(plan, target).items():
            flows = [
                truth
                for truth in truths
                if truth.flow.target.cluster == target
                and truth.flow.source.cluster in sources
                and truth.flow.source.topic in states
            ]
            at_source = {source: admins[source].positions(group) for source in sources}
            is_shared = plan.mode is not Mode.PREFIXED
            judgement.add(
                _settled(
                    admins[target],
                    group,
                    flows,
                    at_source,
                    logs,
                    holed,
                    comes_to,
                    born,
                    is_shared=is_shared,
                )
            )
    return judgement


def judge_group_answers(plan: Plan, urls: Urls, truths: Sequence[FlowTruth]) -> Judgement:
    """Judge what the aggregators answer about the positions of groups. Raises ApiUnavailable."""
    judgement = Judgement()
    checks = {
        (truth.flow.link, truth.flow.source.topic, truth.flow.source.number): ForwardCheck(truth)
        for truth in truths
    }
    topics = [str(state) for state in group_states(plan)]
    for link in plan.shape.links:
        for kind in GROUPS:
            group = group_name(plan, kind, link.source)
            query = {"link": link.name, "group": group}
            answer = api.get(urls[link.target], api.GROUPS, query)
            for part in answer["partitions"]:
                if part["topic"] in topics:
                    check = checks[link.name, part["topic"], part["partition"]]
                    judgement.add(check.judge_position(part["offset"], Answer.of(part)))
    return judgement


def _arrivals(plan: Plan, born: Mapping[str, Written]) -> ComesTo:
    def comes_to(identity: str, cluster: str) -> bool:
        sources = {link.source for link in plan.shape.links_into(cluster)}
        return identity in born and born[identity].partition.cluster in sources

    return comes_to


def _groups_of(plan: Plan, target: str) -> Mapping[str, list[str]]:
    """The groups whose positions links bring to a cluster, with the sources of each."""
    found: dict[str, list[str]] = defaultdict(list)
    for link in plan.shape.links_into(target):
        for kind in GROUPS:
            found[group_name(plan, kind, link.source)].append(link.source)
    return found


def _settled(
    admin: Admin,
    group: str,
    flows: Sequence[FlowTruth],
    at_source: Mapping[str, Positions],
    logs: Mapping[Partition, Log],
    holed: Collection[Partition],
    comes_to: ComesTo,
    born: Collection[str],
    *,
    is_shared: bool,
) -> Judgement:
    """The judgement of a group at a target; wrong positions are read again for a while."""
    into: dict[Partition, list[FlowTruth]] = defaultdict(list)
    for truth in flows:
        into[truth.flow.target].append(truth)
    judged = Judgement()
    left = [target for target, truths in into.items() if _committed(truths, at_source)]
    for last in range(SETTLE_ROUNDS, -1, -1):
        positions = admin.positions(group)
        wrong = []
        for target in left:
            committed = _committed(into[target], at_source)
            found = positions.get((target.topic, target.number))
            words = ", ".join(f"{source}: {offset}" for source, offset in committed.items())
            is_read = reads(into[target], committed, logs, comes_to, born)
            at = GroupPosition(group, words, found)
            verdict = check_group(
                logs[target],
                at,
                is_read,
                may_repeat=need_only_be_safe(into[target], committed, holed, is_shared=is_shared),
                may_be_missing=may_be_missing(into[target], committed),
            )
            if verdict.findings and last:
                wrong.append(target)
            else:
                judged.add(verdict)
        if not wrong:
            break
        left = wrong
        time.sleep(SETTLE_SECONDS)
    return judged


def _committed(
    truths: Sequence[FlowTruth], at_source: Mapping[str, Positions]
) -> dict[Partition, int]:
    """The positions that are translated into one target partition, by source partition."""
    sources = (truth.flow.source for truth in truths)
    return {
        source: at
        for source in sources
        if (at := at_source[source.cluster].get((source.topic, source.number))) is not None
    }
