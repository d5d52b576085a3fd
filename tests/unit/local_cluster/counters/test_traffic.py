"""Counters of topics: sums never decrease."""

from __future__ import annotations

from local_cluster.counters.traffic import FIELDS, TopicsTraffic


def test_a_dropped_topic_stays_in_the_sums() -> None:
    traffic = TopicsTraffic()
    traffic.of("a").bytes_in += 5
    traffic.of("b").bytes_in += 7
    traffic.unknown.failed_produce_requests += 1
    traffic.drop("a")
    traffic.drop("never was")
    assert [topic for topic, _ in traffic] == ["b"]
    sums = dict(zip(FIELDS, traffic.sums(), strict=True))
    assert (sums["bytes_in"], sums["failed_produce_requests"]) == (12, 1)
    traffic.of("a").bytes_in += 1
    assert dict(zip(FIELDS, traffic.sums(), strict=True))["bytes_in"] == 13


def test_replicas_of_a_topic_share_its_counters() -> None:
    traffic = TopicsTraffic()
    assert traffic.of("a") is traffic.of("a")
    assert len(traffic.of("a").values()) == len(FIELDS)
