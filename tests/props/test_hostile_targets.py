"""Some hundred inputs of `make hostile` for each target: each is read or refused cleanly."""

from __future__ import annotations

import pytest

from tests.hostile.mutations import hostile_input
from tests.hostile.target import Target
from tests.hostile.targets import TARGETS
from tests.hostile.trial import try_inputs

READABLE = [target for target in TARGETS if target.name != "logins"]
"""No login of the corpus has the right password, so that whoever gets in is a finding."""


@pytest.mark.parametrize("target", TARGETS, ids=[target.name for target in TARGETS])
def test_hostile_inputs_are_read_or_refused(target: Target) -> None:
    count = 500 if target.share > 1 else 50
    tally = try_inputs(target, 1, range(count))
    assert tally.findings == []
    assert tally.inputs == count
    assert tally.refused > 0


@pytest.mark.parametrize("target", READABLE, ids=[target.name for target in READABLE])
def test_valid_inputs_are_read(target: Target) -> None:
    """The inputs are changes of what is valid, so that they reach behind the first check."""
    for content in target.corpus()[:100]:
        target.read(content)


def test_a_finding_names_its_input() -> None:
    def read(content: bytes) -> None:
        if len(content) > 3:
            raise IndexError("planted")
        raise ValueError("refused")

    target = Target("planted", lambda: [b"abc"], read, (ValueError,))
    tally = try_inputs(target, 7, range(100))
    assert 0 < tally.refused < 100
    assert tally.refused + tally.findings_count == 100
    finding = tally.findings[0]
    assert finding.error == "IndexError: planted"
    assert hostile_input([b"abc"], 7, "planted", finding.number) == finding.content
