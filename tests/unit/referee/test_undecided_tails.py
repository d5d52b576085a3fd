"""Which stops are counted, and which stay findings."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_maker.model import PairingError
from mirror_maker.tail.alignment import Alignment
from tests.referee.undecided_tails import explain_link, is_undecided

TEXT = (
    "the source lost records that were copied and not mapped, and nothing tells whether offset 7 "
    "was copied as well"
)
UNDECIDED = {("compacted", 1)}


def link(*stopped: tuple[str, int], **changes: Any) -> dict[str, Any]:
    """A link as `heliograph status` tells of it."""
    shown = {
        "state": "degraded",
        "reason": f"compacted-1 is FAILED (target): {TEXT}",
        "standing_still": [{"topic": topic, "partition": number} for topic, number in stopped],
        "standing_still_more": 0,
    }
    return {**shown, **changes}


def test_the_mirror_still_says_it_in_these_words() -> None:
    alignment = Alignment(0, 100, [], length=1)
    alignment.feed(1, ("x",), 0)
    alignment.end(2)
    with pytest.raises(PairingError) as raised:
        alignment.result(0)
    assert is_undecided(str(raised.value))


@pytest.mark.parametrize("stop", [None, "the target lost records", f"{TEXT}, and more"])
def test_any_other_stop_is_not_undecided(stop: str | None) -> None:
    assert not is_undecided(stop)
    assert is_undecided(TEXT)


def test_a_link_is_explained_by_its_undecided_tails() -> None:
    assert explain_link(link(("compacted", 1)), UNDECIDED)
    elsewhere = link(state="running", reason=None)
    assert explain_link(elsewhere, UNDECIDED), "another worker has the partition"
    assert not explain_link(elsewhere, set()), "something else is behind"


@pytest.mark.parametrize(
    "told",
    [
        link(("compacted", 1), ("plain", 0)),
        link(("compacted", 1), standing_still_more=1),
        link(("compacted", 1), reason="the map has not been written"),
        link(state="source_down", reason=None),
    ],
)
def test_a_link_with_another_trouble_is_not(told: dict[str, Any]) -> None:
    assert not explain_link(told, UNDECIDED)
