"""From which offset of the receipts topic each flow needs records. Pure.

The flows of a link share the topic, and most have been given it up to the same offset: the level.
Only the others have an offset of their own: they were taken up elsewhere, or had no room for a
record. Thousands of idle flows cost nothing in a round.
"""

from __future__ import annotations

from collections.abc import Callable


class ReceiptOffsets:
    """The offsets of all flows that one auditor audits, by flow id."""

    def __init__(self) -> None:
        self._level = 0
        self._own: dict[int, int] = {}
        self._position = 0
        """Where the records begin that are being given."""
        self._refused: set[int] = set()
        """Flows that have had no room since `begin`: what follows would leave a gap."""

    def add(self, flow_id: int, offset: int) -> None:
        """Take up a flow, which has not been given the records from this offset on."""
        if offset != self._level:
            self._own[flow_id] = offset

    def remove(self, flow_id: int) -> None:
        self._own.pop(flow_id, None)

    def of(self, flow_id: int) -> int:
        """Return the offset from which a flow has not been given records."""
        return self._own.get(flow_id, self._level)

    def next(self, flows_count: int, has_room: Callable[[int], bool]) -> int | None:
        """Return where to read on for the `flows_count` flows, or None if no flow has room."""
        wanted = [offset for flow_id, offset in self._own.items() if has_room(flow_id)]
        if flows_count > len(self._own):
            wanted.append(self._level)
        return min(wanted, default=None)

    def begin(self, position: int) -> None:
        """Give the records from `position` on, which `next` has returned."""
        self._position = position
        self._refused.clear()

    def is_due(self, flow_id: int, offset: int) -> bool:
        """Return whether a flow needs the record at this offset now."""
        return self._position <= self.of(flow_id) <= offset and flow_id not in self._refused

    def give(self, flow_id: int, offset: int) -> None:
        """Record that a flow has taken the record at this offset."""
        self._own[flow_id] = offset + 1

    def refuse(self, flow_id: int, offset: int) -> None:
        """Record that a flow had no room for the record at this offset: it gets it next."""
        self._own[flow_id] = offset
        self._refused.add(flow_id)

    def reach(self, next_offset: int) -> None:
        """Record that everything below `next_offset` was given to the flows that it was due to."""
        self._level = max(self._level, next_offset)
        for flow_id, offset in list(self._own.items()):
            if offset >= self._position and flow_id not in self._refused:
                offset = self._own[flow_id] = max(offset, next_offset)
            if offset == self._level:
                del self._own[flow_id]

    def lose(self, start: int, end: int) -> None:
        """Take the new bounds of the topic: flows outside begin at `start`."""
        for flow_id, offset in self._own.items():
            if not start <= offset <= end:
                self._own[flow_id] = start
        if not start <= self._level <= end:
            self._level = start

    def restart(self, start: int) -> None:
        """Give all flows the topic from `start` on: it was re-created."""
        self._level = start
        self._own.clear()
