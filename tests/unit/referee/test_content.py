"""Every record that a producer makes is known again by its identity."""

from __future__ import annotations

import random

import pytest

from tests.referee.content import COMPACTED, IMPATIENT, identity_of, make_content, may_be_doubled
from tests.referee.history import Content
from tests.referee.modes import State

RECORDS = 300


@pytest.mark.parametrize("state", list(State))
def test_an_identity_is_read_from_the_record(state: State) -> None:
    randomly = random.Random(1)
    made = [make_content(state, "a", f"a.w.{n}", 10**12, randomly) for n in range(RECORDS)]
    assert [identity_of(each) for each in made] == [f"a.w.{n}" for n in range(RECORDS)]
    tombstones = sum(each.value is None for each in made)
    assert (tombstones > 0) == (state in COMPACTED)
    assert (None in {each.key for each in made}) == (state not in COMPACTED)


@pytest.mark.parametrize(
    "strange",
    [
        Content(None, None, (), 0),
        Content(None, b"no end", (), 0),
        Content(None, b"\xff|", (), 0),
    ],
)
def test_a_strange_record_has_none(strange: Content) -> None:
    assert identity_of(strange) is None


def test_the_producer_that_gives_up_is_known_by_its_records() -> None:
    assert may_be_doubled(f"a.w7-0.{IMPATIENT}.12")
    assert not may_be_doubled("a.w7-0.lz4.12")
