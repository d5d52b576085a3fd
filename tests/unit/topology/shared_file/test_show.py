"""What people read of the file's state."""

from __future__ import annotations

from typing import Any

import pytest

from topology.shared_file.show import file_lines

BEHIND: dict[str, Any] = {
    "state": "behind",
    "generation": 3,
    "host": "host 10.0.0.1",
    "written_at": "2026-11-28T22:00:00+00:00",
    "seen_generation": 2,
    "silent": ["ZooKeeper 10.0.0.2:2181 does not answer"],
    "diff": ["-a", "+b"],
}


def test_a_host_that_is_behind_sees_whose_file_is_newer_and_how() -> None:
    assert file_lines(BEHIND) == [
        "behind: the file is behind generation 3 of host 10.0.0.1, 2026-11-28T22:00:00+00:00",
        "not compared: ZooKeeper 10.0.0.2:2181 does not answer",
        "-a",
        "+b",
    ]
    assert "-a" not in file_lines(BEHIND, with_diff=False)


@pytest.mark.parametrize("state", ["first", "same", "advance", "conflict", "unknown"])
def test_every_state_has_a_sentence(state: str) -> None:
    assert file_lines({**BEHIND, "state": state})[0].startswith(f"{state}: ")
