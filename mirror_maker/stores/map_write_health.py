"""Whether a link's map can be written, and when copying must wait for it. Pure.

After a kill, a proof reads everything that was copied and is not mapped. While the map cannot be
written, that grows with every copied batch. So copying stops after a while.
"""

from __future__ import annotations

from typing import Final

UNMAPPED_MS_MAX: Final = 30_000
"""How long copying continues while the map cannot be written. The first failed write may add its
own duration."""


class MapWrites:
    """The map writes of one link on one worker. Times are monotonic."""

    def __init__(self) -> None:
        self.failure: str | None = None
        """The error of the last write; None if it succeeded."""
        self.is_overdue = False
        """Whether copying must stop until a write succeeds."""
        self._since_ms: int | None = None

    def failed(self, error: Exception, began_ms: int, now_ms: int) -> None:
        """Note a failed write that began at `began_ms`: what was copied since is not mapped."""
        self.failure = str(error)
        if self._since_ms is None:
            self._since_ms = began_ms
        self.is_overdue = now_ms - self._since_ms >= UNMAPPED_MS_MAX

    def succeeded(self) -> None:
        """Note that everything is mapped."""
        self.failure = None
        self.is_overdue = False
        self._since_ms = None

    def unwritten_ms(self, now_ms: int) -> int:
        """Return how long the map could not be written; 0 while it can be."""
        return 0 if self._since_ms is None else now_ms - self._since_ms
