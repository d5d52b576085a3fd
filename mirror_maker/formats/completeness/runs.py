"""What one life of a worker has stated, round by round. Pure.

A vector names every partition, in one part or several; the rounds after it name what moved. Whoever
missed a round knows nothing of that life until its next vector.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from mirror_maker.formats.completeness.statement import Entry, Statement

RUNS_MAX: Final = 64
"""Lives of workers that are remembered; the one that has not written for longest goes first."""


@dataclass(slots=True)
class Run:
    """One life of a worker, as far as it was read."""

    round: int
    parts_missing: int
    """Parts of the vector of this round that were not read yet."""
    asked_ms: list[int | None] = field(default_factory=list)
    """By session."""
    entries: dict[tuple[str, int], Entry] = field(default_factory=dict)
    written_ms: int = 0
    listed_ms: int | None = None
    """Time of the newest listing of its worker; None if it is not known."""

    @property
    def is_whole(self) -> bool:
        return self.parts_missing == 0

    def session_ms(self, entry: Entry) -> int | None:
        """Return when the session that an entry follows was asked last; None without one."""
        if entry.session is None or entry.session >= len(self.asked_ms):
            return None
        return self.asked_ms[entry.session]

    def complete_through_ms(self, entry: Entry, asked_ms: int | None) -> int | None:
        """Return until when an entry is complete, as far as the listing of its worker allows.

        `asked_ms` is the time of its session, None if that proves nothing.
        """
        is_complete = entry.end is not None and entry.position >= entry.end
        through_ms = latest(entry.complete_through_ms, asked_ms if is_complete else None)
        return capped(through_ms, self.listed_ms)


def capped(time_ms: int | None, limit_ms: int | None) -> int | None:
    """Return the earlier one; a limit of None is none."""
    return time_ms if time_ms is None or limit_ms is None else min(time_ms, limit_ms)


def latest(one: int | None, other: int | None) -> int | None:
    """Return the later one of those that are known."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def continued(run: Run | None, statement: Statement) -> Run | None:
    """Return the run with the next statement: the same, a new one, or None if a round was lost.

    The caller takes in what the statement says, its round too.
    """
    if statement.is_vector:
        if run is None or run.round != statement.round or statement.part == 0:
            run = Run(statement.round, statement.parts)
        run.parts_missing -= 1
        return run
    if run is None or not run.is_whole or run.round + 1 != statement.round:
        return None
    return run
