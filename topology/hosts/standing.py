"""Whether the file that a host runs is the newest generation. Pure.

same     it is the newest generation, or the file of this host if no ZooKeeper answers
behind   it is an earlier generation
differs  it is neither: it was edited there, or it is older than the generations that are known
unknown  the host does not say which file it runs
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from topology.shared_file.canonical import digest_of
from topology.shared_file.generations import Generation

State = Literal["same", "behind", "differs", "unknown"]


class Standing(NamedTuple):
    """How the file of a host stands to the newest generation."""

    state: State
    generation: int | None = None
    """Number of the generation that it is; None if it is none, or if that is unknown."""


def standing_of(text: str, newest: Generation | None, own_text: str) -> Standing:
    """Return how a file stands; `own_text` is that of this host, for want of a generation."""
    if not text:
        return Standing("unknown")
    if newest is None:
        return Standing("same" if text == own_text else "differs")
    digest = digest_of(text)
    if digest == newest.digest:
        return Standing("same", newest.number)
    for index, former in enumerate(newest.former):
        if former == digest:
            return Standing("behind", newest.number - 1 - index)
    return Standing("differs")
