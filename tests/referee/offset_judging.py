"""Have offsets translated by the aggregators, and judge the answers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from tests.referee import api
from tests.referee.checks.finding import Judgement
from tests.referee.checks.flow_truth import FlowTruth
from tests.referee.checks.translation import Answer, ForwardCheck, ReverseCheck
from tests.referee.history import Flow, Partition

SETTLE_ROUNDS: Final = 8
SETTLE_SECONDS: Final = 3.0
"""The map is published and followed within a second or so: a wrong answer is asked for again."""

ASKED_BEYOND: Final = 2
"""Offsets from the end on that are asked: the end itself, and one that must be pending."""

Urls = Mapping[str, str]
"""The aggregators, by cluster."""


class Sampler:
    """Chooses which offsets are asked: all, or with a seed as many as there is room for."""

    def __init__(self, offsets_max: int, end_offsets: Collection[int], seed: int) -> None:
        """`end_offsets` are those of every partition whose offsets are asked."""
        self._each_max = room_for_each([end + ASKED_BEYOND for end in end_offsets], offsets_max)
        self._random = random.Random(seed)

    def offsets(self, end_offset: int) -> Sequence[int]:
        """Offsets from 0 to one behind the end."""
        everything = range(end_offset + ASKED_BEYOND)
        if len(everything) <= self._each_max:
            return everything
        edges = {0, 1, end_offset - 1, end_offset, end_offset + 1}
        return sorted(edges.union(self._random.sample(everything, self._each_max)))


def room_for_each(sizes: Collection[int], total_max: int) -> int:
    """The largest number so that taking at most so many of each stays within the total."""
    left, room = total_max, 0
    for index, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - index)
        if size > share:
            return share
        left, room = left - size, size
    return room


def judge_forward(urls: Urls, truths: Sequence[FlowTruth], sampler: Sampler) -> Judgement:
    """Translate the source offsets of all flows. Raises ApiUnavailable."""
    judgement = Judgement()
    for truth in truths:
        check = ForwardCheck(truth)
        offsets = sampler.offsets(truth.evidence.source.end_offset)
        flow = truth.flow

        def ask(asked: Sequence[int], flow: Flow = flow) -> list[Answer]:
            source: api.Query = {
                "link": flow.link,
                "topic": flow.source.topic,
                "partition": flow.source.number,
            }
            queries: list[api.Query] = [{**source, "offset": offset} for offset in asked]
            return api.ask_many(urls[flow.target.cluster], api.TRANSLATE, queries)

        judgement.add(_settled(offsets, ask, check.judge))
    return judgement


def judge_reverse(
    urls: Urls, into: Mapping[Partition, Sequence[FlowTruth]], sampler: Sampler
) -> Judgement:
    """Translate the target offsets of all target partitions back. Raises ApiUnavailable."""
    judgement = Judgement()
    for target, truths in into.items():
        check = ReverseCheck(target, truths)
        offsets = sampler.offsets(truths[0].evidence.target.end_offset)

        def ask(asked: Sequence[int], target: Partition = target) -> list[Answer]:
            place: api.Query = {"topic": target.topic, "partition": target.number}
            queries: list[api.Query] = [{**place, "offset": offset} for offset in asked]
            return api.ask_many(urls[target.cluster], api.REVERSE, queries)

        judgement.add(_settled(offsets, ask, check.judge))
    return judgement


def _settled(
    offsets: Sequence[int],
    ask: Callable[[Sequence[int]], list[Answer]],
    judge: Callable[[int, Answer], Judgement],
) -> Judgement:
    """The judgement of each offset's answer; one that is wrong is asked for again for a while."""
    judged = Judgement()
    left = offsets
    for last in range(SETTLE_ROUNDS, -1, -1):
        wrong = []
        for offset, answer in zip(left, ask(left), strict=True):
            verdict = judge(offset, answer)
            if verdict.findings and last:
                wrong.append(offset)
            else:
                judged.add(verdict)
        if not wrong:
            return judged
        left = wrong
        time.sleep(SETTLE_SECONDS)
    return judged
