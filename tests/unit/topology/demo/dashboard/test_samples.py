"""The delay from an acknowledgement to a row, read from two curves."""

from __future__ import annotations

from topology.demo.dashboard.samples import (
    SAMPLES_MAX,
    DatacenterSample,
    History,
    Sample,
    behind_seconds,
    row_delays_seconds,
)


def sample(at_seconds: float, produced: int, rows: int) -> Sample:
    figures = DatacenterSample(produced=produced, rows=rows)
    return Sample(at_seconds=at_seconds, now_ms=0, datacenters={"jfk": figures})


def test_a_delay_is_the_time_between_the_curves() -> None:
    samples = [sample(0, 0, 0), sample(1, 10, 0), sample(2, 20, 0), sample(3, 20, 15)]
    assert row_delays_seconds(samples, "jfk", -1) == [1.0]
    samples.append(sample(4.5, 20, 20))
    assert row_delays_seconds(samples, "jfk", -1) == [1.0, 2.5]


def test_flights_of_before_the_time_do_not_count() -> None:
    samples = [sample(0, 10, 0), sample(8, 10, 0), sample(9, 10, 10), sample(10, 12, 10)]
    samples.append(sample(11, 12, 12))
    assert row_delays_seconds(samples, "jfk", 8.5) == [1.0]


def test_a_datacenter_without_samples_has_no_delay() -> None:
    assert row_delays_seconds([sample(0, 1, 1)], "lga", -1) == []


def test_an_unknown_time_is_not_behind() -> None:
    assert behind_seconds(5_000, None) is None
    assert behind_seconds(5_000, 3_500) == 1.5
    assert behind_seconds(5_000, 6_000) == 0.0


def test_the_history_is_bounded() -> None:
    history = History()
    for second in range(SAMPLES_MAX + 5):
        history.add(sample(second, 0, 0))
    assert len(history.samples) == SAMPLES_MAX
    assert history.samples[0].at_seconds == 5
