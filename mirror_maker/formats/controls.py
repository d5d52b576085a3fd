"""An operator's orders to a link: what is paused, and how fast it may copy. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

UNLIMITED: Final = 0


class PausedPart(NamedTuple):
    """A whole link, a topic of it, or a partition."""

    topic: str | None = None
    partition: int | None = None

    def __str__(self) -> str:
        if self.topic is None:
            return "the link"
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"


class StillPausedError(Exception):
    """The part to resume lies in a larger part that is paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """The orders of one link; every worker of the link follows the last that was written."""

    paused: frozenset[PausedPart] = frozenset()
    source_bytes_per_second: int | None = None
    """Rate of reading; UNLIMITED, or None for the configured rate."""
    target_bytes_per_second: int | None = None
    """Rate of writing, likewise."""

    def pauses(self, topic: str, partition: int) -> bool:
        """Return whether a source partition is paused."""
        return bool(self.paused) and not self.paused.isdisjoint(
            (PausedPart(), PausedPart(topic), PausedPart(topic, partition))
        )

    def pause(self, part: PausedPart) -> Controls:
        return replace(self, paused=self.paused | {part})

    def resume(self, part: PausedPart) -> Controls:
        """Resume a part and everything in it. Raises StillPausedError."""
        wider = {PausedPart(), PausedPart(part.topic)} - {part}
        for other in wider & self.paused:
            raise StillPausedError(f"{other} is paused as a whole")
        if part.topic is None:
            return replace(self, paused=frozenset())
        kept = {
            other
            for other in self.paused
            if other != part and not (part.partition is None and other.topic == part.topic)
        }
        return replace(self, paused=frozenset(kept))
