"""Read positions of consumer groups on both sides, and judge those on the targets."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from tests.referee import api
from tests.referee.admin import Admin
from tests.referee.checks.finding import Judgement
from tests.referee.checks.flow_truth import FlowTruth
from tests.referee.checks.group_reading import ComesTo, may_be_missing, need_only_be_safe, reads
from tests.referee.checks.groups import GroupPosition, check_group
from tests.referee.checks.translation import SHARED, Answer, ForwardCheck
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


class GroupJudge:
    """Judges the positions of groups that links bring to targets."""

    def __init__(
        self,
        plan: Plan,
        admins: Mapping[str, Admin],
        logs: Mapping[Partition, Log],
        truths: Sequence[FlowTruth],
        born: Mapping[str, Written],
    ) -> None:
        self._plan = plan
        self._admins = admins
        self._logs = logs
        self._truths = truths
        self._born = born
        self._comes_to = _arrivals(plan, born)
        self._holed = {truth.flow.target for truth in truths if truth.current_holes}
        self._topics = {str(state) for state in group_states(plan)}
        self._is_shared = plan.mode is not Mode.PREFIXED

    def judge_targets(self) -> Judgement:
        """Judge the positions on the targets of every group that committed at a source.

        Raises AdminGaveUp.
        """
        judgement = Judgement()
        for target in self._plan.shape.targets:
            for group, sources in _groups_of(self._plan, target).items():
                judgement.add(self._settled(target, group, sources))
        return judgement

    def judge_answers(self, urls: Urls) -> Judgement:
        """Judge what the aggregators answer about the positions. Raises ApiUnavailable."""
        judgement = Judgement()
        checks = {
            (truth.flow.link, truth.flow.source.topic, truth.flow.source.number): (truth, check)
            for truth, check in zip(self._truths, map(ForwardCheck, self._truths), strict=True)
        }
        for target in self._plan.shape.targets:
            for group, sources in _groups_of(self._plan, target).items():
                into = self._into(target, sources)
                at_source = self._at_source(group, sources)
                for link, part in self._answered(urls[target], target, group, sources):
                    truth, check = checks[link, part["topic"], part["partition"]]
                    at, answer = truth.flow.target, Answer.of(part)
                    judgement.add(check.judge_position(part["offset"], answer))
                    if answer.state == SHARED and answer.target_offset is not None:
                        offset = answer.target_offset
                        judgement.add(self._judge(group, at, into[at], at_source, offset))
        return judgement

    def _answered(
        self, url: str, target: str, group: str, sources: Collection[str]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each link with what is answered about a partition of a group's topics."""
        for link in self._plan.shape.links_into(target):
            if link.source in sources:
                answer = api.get(url, api.GROUPS, {"link": link.name, "group": group})
                for part in answer["partitions"]:
                    if part["topic"] in self._topics:
                        yield link.name, part

    def _settled(self, target: str, group: str, sources: Collection[str]) -> Judgement:
        """Judge a group at a target; wrong positions are read again for a while."""
        into = self._into(target, sources)
        at_source = self._at_source(group, sources)
        judged = Judgement()
        left = [at for at, truths in into.items() if _committed(truths, at_source)]
        for last in range(SETTLE_ROUNDS, -1, -1):
            positions = self._admins[target].positions(group)
            wrong = []
            for at in left:
                found = positions.get((at.topic, at.number))
                verdict = self._judge(group, at, into[at], at_source, found)
                if verdict.findings and last:
                    wrong.append(at)
                else:
                    judged.add(verdict)
            if not wrong:
                break
            left = wrong
            time.sleep(SETTLE_SECONDS)
        return judged

    def _judge(
        self,
        group: str,
        at: Partition,
        truths: Sequence[FlowTruth],
        at_source: Mapping[str, Positions],
        position: int | None,
    ) -> Judgement:
        """Judge one position in a target partition, into which these flows copy."""
        committed = _committed(truths, at_source)
        words = ", ".join(f"{source}: {offset}" for source, offset in committed.items())
        return check_group(
            self._logs[at],
            GroupPosition(group, words, position),
            reads(truths, committed, self._logs, self._comes_to, self._born),
            may_repeat=need_only_be_safe(truths, committed, self._holed, is_shared=self._is_shared),
            may_be_missing=may_be_missing(truths, committed),
        )

    def _into(self, target: str, sources: Collection[str]) -> Mapping[Partition, list[FlowTruth]]:
        """Return the flows of groups' topics from these sources, by target partition."""
        into: dict[Partition, list[FlowTruth]] = defaultdict(list)
        for truth in self._truths:
            source = truth.flow.source
            is_theirs = source.cluster in sources and source.topic in self._topics
            if truth.flow.target.cluster == target and is_theirs:
                into[truth.flow.target].append(truth)
        return into

    def _at_source(self, group: str, sources: Collection[str]) -> Mapping[str, Positions]:
        return {source: self._admins[source].positions(group) for source in sources}


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
