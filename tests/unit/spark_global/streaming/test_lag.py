"""Lag in records and seconds, from what the driver saw and when."""

from __future__ import annotations

from local_cluster.client.model import TopicPartition
from spark_global.streaming.lag import SAMPLES_MAX, DatacenterLag, LagHistory

JFK0, JFK1, LGA = TopicPartition("jfk.f", 0), TopicPartition("jfk.f", 1), TopicPartition("lga.f", 0)
NAMES = {"jfk.f": "JFK", "lga.f": "LGA"}


def test_seconds_are_since_the_stream_had_read_all_there_was() -> None:
    history = LagHistory()
    history.add(100.0, {JFK0: 0, JFK1: 5, LGA: 7})
    history.add(110.0, {JFK0: 20, JFK1: 5, LGA: 7})
    history.add(130.0, {JFK0: 50, JFK1: 9, LGA: 7})
    assert history.lag({JFK0: 20, JFK1: 5, LGA: 7}, NAMES) == [
        DatacenterLag(datacenter="JFK", records=34, seconds=20.0),
        DatacenterLag(datacenter="LGA", records=0, seconds=0.0),
    ]
    (jfk, _) = history.lag({JFK0: 19, JFK1: 9, LGA: 7}, NAMES)
    assert jfk == DatacenterLag(datacenter="JFK", records=31, seconds=30.0)
    (jfk, _) = history.lag({JFK0: 50, JFK1: 9, LGA: 7}, NAMES)
    assert jfk == DatacenterLag(datacenter="JFK", records=0, seconds=0.0)


def test_what_was_unread_at_the_first_sample_is_a_lower_bound() -> None:
    history = LagHistory()
    assert history.lag({LGA: 0}, NAMES) == []
    history.add(100.0, {LGA: 7})
    history.add(110.0, {LGA: 7})
    assert history.lag({LGA: 3}, NAMES) == [
        DatacenterLag(datacenter="LGA", records=4, seconds=10.0, is_at_least=True)
    ]


def test_the_history_is_bounded() -> None:
    history = LagHistory()
    for second in range(10 * SAMPLES_MAX):
        history.add(float(second), {LGA: second})
    last = 10 * SAMPLES_MAX - 1
    (lga,) = history.lag({LGA: last}, NAMES)
    assert lga.records == 0
    (lga,) = history.lag({LGA: 0}, NAMES)
    assert lga.records == last
    assert (lga.seconds, lga.is_at_least) == (float(last), False)
    # Older samples lie further apart, so an old lag is stated too high and never too low.
    for behind in (1, 100, 1_000, 5_000):
        (lga,) = history.lag({LGA: last - behind}, NAMES)
        assert behind <= lga.seconds <= last
