"""What an operator has told a link: what is paused, and how fast it may go. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

UNLIMITED: Final = 0


class PausedPart(NamedTuple):
    """All of a link, a topic of it, or a partition."""

    topic: str | None = None
    partition: int | None = None

    def __str__(self) -> str:
        if self.topic is None:
            return "the link"
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"


class StillPausedError(Exception):
    """What was to be resumed lies in something that is paused as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """One link's; every worker of the link follows the last that was written."""

    paused: frozenset[PausedPart] = frozenset()
    source_bytes_per_second: int | None = None
    """Rate of reading; UNLIMITED, or None for what the settings say."""
    target_bytes_per_second: int | None = None
    """Rate of writing, likewise."""

    def pauses(self, topic: str, partition: int) -> bool:
        """Whether a source partition is paused."""
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
