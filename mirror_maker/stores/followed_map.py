"""A flow's map that follows its map topic, without being built anew for every block. Pure."""

from __future__ import annotations

from mirror_maker.formats import FlowKey, MapTopic, OffsetMap, extend_map


class GrowingMap:
    """One flow's map; the same flow of the same topic at every call."""

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._offset_map: OffsetMap | None = None

    def follow(self, state: MapTopic, flow: FlowKey) -> OffsetMap | None:
        """The map as the topic has it now, None for a flow that was never opened.

        It may know more than the topic: what was trimmed there. Raises MapFormatError.
        """
        opening = state.opening(flow)
        epoch = opening.producer_epoch if opening is not None else None
        last = state.last_block(flow, epoch) if epoch is not None else None
        offset_map = self._offset_map
        if (
            offset_map is None
            or epoch is None
            or epoch != self._epoch
            or (last is not None and last.source_start > offset_map.source_next)
        ):
            # A new epoch may have cut the map back, and blocks between may have been missed.
            self._epoch, self._offset_map = epoch, state.build_offset_map(flow)
        elif last is not None:
            extend_map(offset_map, last)
        return self._offset_map
