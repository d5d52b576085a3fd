"""How the writes of a link's map fare, and when it is time to wait for them. Pure.

What is copied and not mapped is what a proof reads again after a kill. While the map cannot be
written it grows with everything that is copied, so after a while nothing more is taken from the
source.
"""

from __future__ import annotations

from typing import Final

UNMAPPED_MS_MAX: Final = 30_000
"""For so long copying goes on while the map cannot be written; the write that finds out may have
taken its own time beside it."""


class MapWrites:
    """Of one link on one worker; times are of the monotonic clock."""

    def __init__(self) -> None:
        self.failure: str | None = None
        """Why the map could not be written last time."""
        self.is_overdue = False
        """Whether nothing more is to be taken from the source until it can be."""
        self._since_ms: int | None = None

    def failed(self, error: Exception, began_ms: int, now_ms: int) -> None:
        """A write that began then has failed now: nothing that came since is mapped."""
        self.failure = str(error)
        if self._since_ms is None:
            self._since_ms = began_ms
        self.is_overdue = now_ms - self._since_ms >= UNMAPPED_MS_MAX

    def succeeded(self) -> None:
        """Everything is mapped that there was to map, if there was something."""
        self.failure = None
        self.is_overdue = False
        self._since_ms = None

    def unwritten_ms(self, now_ms: int) -> int:
        """For how long the map could not be written; 0 where it can be."""
        return 0 if self._since_ms is None else now_ms - self._since_ms
