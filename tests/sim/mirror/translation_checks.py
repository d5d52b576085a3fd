"""The promises of translation, compared with where every copy really is."""

from __future__ import annotations

from collections.abc import Mapping

from mirror_maker.formats import OffsetMap, TranslationState


def check_translations(offset_map: OffsetMap, places: Mapping[int, int], end: int) -> int:
    """Check every source offset up to `end`, both ways; return how many answers were inexact.

    `places` are all copies of the flow: source offset -> target offset.
    """
    inexact = 0
    targets = sorted(places.items())
    for offset in range(offset_map.source_start, end + 1):
        before = [target for source, target in targets if source < offset]
        behind = [target for source, target in targets if source >= offset]
        smallest = max(before) + 1 if before else offset_map.target_start
        answer = offset_map.translate(offset)
        if answer.state is TranslationState.EXACT:
            assert answer.target_offset == smallest, (offset, answer, smallest)
        elif answer.state is TranslationState.INEXACT:
            inexact += 1
            assert answer.target_offset is not None, offset
            assert all(target >= answer.target_offset for target in behind), (offset, answer)
        else:
            assert offset > offset_map.source_next or offset < _known_from(offset_map), offset
    sources = {target: source for source, target in places.items()}
    for target in range(offset_map.target_start, max(sources, default=0) + 2):
        source = offset_map.source_of(target)
        assert source is None or source == sources[target], (target, source)
    return inexact


def _known_from(offset_map: OffsetMap) -> int:
    """Return the source offset from which on the map was not trimmed."""
    first = next(offset_map.runs(), None)
    return offset_map.source_next if first is None else first.source_offset
