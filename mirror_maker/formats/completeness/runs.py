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
