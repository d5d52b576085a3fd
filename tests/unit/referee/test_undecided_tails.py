"""Which stops are counted, and which stay findings."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_maker.model import PairingError
from mirror_maker.tail.alignment import Alignment
from tests.referee.undecided_tails import REASON, explain_link, undecided_tails

TEXT = (
    "the source lost records that were copied and not mapped, and nothing tells whether offset 7 "
    "was copied as well"
)


def stopped(**changes: Any) -> dict[str, Any]:
    """A partition that stands still, as `heliograph status` tells of it."""
    stop = {"topic": "compacted", "partition": 1, "state": "FAILED", "trouble": "target"}
    return {**stop, "reason": TEXT, **changes}


def link(*standing_still: dict[str, Any], **changes: Any) -> dict[str, Any]:
    reason = f"compacted-1 is FAILED (target): {TEXT}"
    shown = {"reason": reason, "standing_still": standing_still, "standing_still_more": 0}
    return {**shown, **changes}


def test_the_mirror_still_says_it_in_these_words() -> None:
    alignment = Alignment(0, 100, [], length=1)
    alignment.feed(1, ("x",), 0)
    alignment.end(2)
    with pytest.raises(PairingError) as raised:
        alignment.result(0)
    assert REASON.fullmatch(str(raised.value))


def test_an_undecided_tail_of_a_topic_that_compacts_on_both_sides_is_counted() -> None:
    told = link(stopped(), stopped(partition=0))
    assert undecided_tails(told, {"compacted"}) == {("compacted", 0), ("compacted", 1)}
    assert undecided_tails(told, {"plain"}) == set()


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "PAUSED"},
        {"trouble": "out_of_range"},
        {"reason": None},
        {"reason": "the target lost records"},
        {"reason": f"{TEXT}, and more"},
    ],
)
def test_any_other_stop_is_not(changes: dict[str, Any]) -> None:
    assert not undecided_tails(link(stopped(**changes)), {"compacted"})


def test_a_link_with_another_trouble_is_not_excused() -> None:
    undecided = {("compacted", 1)}
    assert explain_link(link(stopped()), undecided)
    assert not explain_link(link(stopped()), set())
    assert not explain_link(link(stopped(), stopped(topic="plain")), undecided)
    assert not explain_link(link(stopped(), standing_still_more=1), undecided)
    assert not explain_link(link(stopped(), reason="the map has not been written"), undecided)
