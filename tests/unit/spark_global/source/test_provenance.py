"""The offset map as columns translates every offset as the published map does."""

from __future__ import annotations

import numpy as np
import pytest

from mirror_maker.formats import OffsetMap, Run
from spark_global.source.provenance import UNKNOWN_OFFSET, MapRuns

RUNS = [(10, 0, 5), (15, 7, 3), (30, 10, 1), (31, 20, 4)]


def mapped() -> MapRuns:
    return MapRuns.of(RUNS, source_next=40, target_next=24)


def published() -> OffsetMap:
    offset_map = OffsetMap(0, 0)
    for run in RUNS:
        offset_map.append(Run(*run))
    offset_map.advance(40)
    return offset_map


def test_sources_agree_with_the_published_map() -> None:
    targets = np.arange(0, 30)
    expected = [published().source_of(int(target)) for target in targets]
    assert mapped().sources_of(targets).tolist() == [
        UNKNOWN_OFFSET if source is None else source for source in expected
    ]


def test_targets_are_the_inverse_of_sources() -> None:
    runs = mapped()
    for source in range(45):
        (target,) = runs.targets_of(np.array([source])).tolist()
        covered = any(start <= source < start + count for start, _, count in RUNS)
        assert (target != UNKNOWN_OFFSET) == covered
        if covered:
            assert runs.sources_of(np.array([target])).tolist() == [source]


def test_position_of_a_source_offset_agrees_with_the_published_translation() -> None:
    # `translate` may stay at the end of a run where nothing mapped lies between; both must have
    # the same mapped records before and behind.
    runs, offset_map = mapped(), published()
    for source in range(41):
        answer = offset_map.translate(source).target_offset
        assert answer is not None
        between = np.arange(min(answer, runs.targets_from(source)), runs.targets_from(source))
        assert (runs.sources_of(between) == UNKNOWN_OFFSET).all()


@pytest.mark.parametrize("end", range(26))
def test_a_cut_map_is_the_map_as_it_was(end: int) -> None:
    cut = mapped().cut_at_target(end)
    targets = np.arange(0, 30)
    expected = np.where(targets < end, mapped().sources_of(targets), UNKNOWN_OFFSET)
    assert cut.sources_of(targets).tolist() == expected.tolist()
    assert cut.target_next == min(end, 24)
    # Every source offset that was copied to `end` or behind is past the cut map.
    behind = mapped().sources_of(np.arange(end, 30))
    known = behind[behind != UNKNOWN_OFFSET]
    assert cut.source_next == (known.min() if known.size else 40)


def test_cover_keeps_what_a_split_needs() -> None:
    targets = np.arange(8, 21)
    part = mapped().covering_targets(8, 21)
    assert part.sources_of(targets).tolist() == mapped().sources_of(targets).tolist()
    sources = np.arange(16, 32)
    part = mapped().covering_sources(16, 32)
    assert part.targets_of(sources).tolist() == mapped().targets_of(sources).tolist()
    assert (part.source_next, part.target_next) == (40, 24)


def test_the_empty_map_knows_nothing() -> None:
    nothing = MapRuns.of(())
    assert nothing.sources_of(np.arange(3)).tolist() == [UNKNOWN_OFFSET] * 3
    assert (nothing.source_next, nothing.target_next, nothing.targets_from(5)) == (0, 0, 0)


@pytest.mark.parametrize("runs", [[(0, 0, 0)], [(5, 5, 1), (4, 9, 1)], [(0, 0, 5), (9, 4, 1)]])
def test_maps_that_cannot_be_are_refused(runs: list[tuple[int, int, int]]) -> None:
    with pytest.raises(ValueError, match="offset map"):
        MapRuns.of(runs)


def test_the_span_without_a_map_is_the_least_one() -> None:
    runs = mapped()
    is_mapped = runs.sources_of(np.arange(40)) != UNKNOWN_OFFSET
    for start in range(30):
        for end in range(start, 40):
            unmapped = [offset for offset in range(start, end) if not is_mapped[offset]]
            expected = (unmapped[0], unmapped[-1] + 1) if unmapped else (end, end)
            assert runs.unmapped_span(start, end) == expected
