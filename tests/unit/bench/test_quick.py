"""The guard of the broker's speed judges ratios by the better direction of their figure."""

from __future__ import annotations

import pytest

from tests.bench import bench_broker, quick
from tests.bench.model import (
    CPU_PER_GB,
    KAFKA,
    KAFKA_FSYNC,
    MB_PER_SECOND,
    OURS,
    OURS_FSYNC,
    Sample,
)
from tests.bench.quick import Judged, Ratio


@pytest.mark.parametrize(
    ("figure", "committed", "measured", "is_worse"),
    [
        (CPU_PER_GB, 0.6, 0.79, False),
        (CPU_PER_GB, 0.6, 0.81, True),
        (CPU_PER_GB, 0.6, 0.1, False),
        (MB_PER_SECOND, 1.2, 0.91, False),
        (MB_PER_SECOND, 1.2, 0.89, True),
        (MB_PER_SECOND, 1.2, 9.0, False),
        (CPU_PER_GB, None, 9.0, False),
    ],
)
def test_worse_by_more_than_a_third(
    figure: str, committed: float | None, measured: float, is_worse: bool
) -> None:
    assert Judged(Ratio("row", figure), measured, committed).is_worse is is_worse


def test_ratios_are_of_medians_and_of_their_sides() -> None:
    samples = [
        Sample(ratio.row, side, {ratio.figure: value})
        for ratio in quick.RATIOS
        for side, values in ((ratio.rival, (4.0, 2.0, 90.0)), (ratio.ours, (1.0, 2.0, 50.0)))
        for value in values
    ]
    judged = list(quick.judge(samples, {quick.RATIOS[0].name: 0.3}))
    assert [each.ratio for each in judged] == list(quick.RATIOS)
    assert judged[0].measured == 0.5 and judged[0].is_worse
    assert judged[1].committed is None
    shown = quick.markdown(judged).splitlines()
    assert shown[2].endswith("| 0.30 | 0.50 | **worse** |")
    with pytest.raises(KeyError, match="raw-produce-256k of ours has no"):
        list(quick.judge(samples[:3], {}))


def test_every_ratio_names_a_row_of_the_bench() -> None:
    rows = {row.name for row in bench_broker.rows(quick.SCALE)}
    assert {ratio.row for ratio in quick.RATIOS} <= rows


def test_only_the_sides_of_the_ratios_are_measured() -> None:
    sides = quick.sides_of_rows()
    assert list(sides) == list(dict.fromkeys(ratio.row for ratio in quick.RATIOS))
    assert sides["raw-fetch-1m"] == {OURS, KAFKA}
    assert sides["raw-single-64"] == {OURS, KAFKA, OURS_FSYNC, KAFKA_FSYNC}
