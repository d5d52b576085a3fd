"""Rows of requests: names, counts, and quantiles of the last minutes only."""

from __future__ import annotations

from local_cluster.counters.requests import RequestMeters
from local_cluster.monitoring.request_rows import HEADS, SNAPSHOTS_MAX, RecentTimes, request_name
from local_cluster.wire.api import ApiKey
from tests.support.scraping import Scrape, parse

MS = 1_000_000


def scraped(times: RecentTimes) -> Scrape:
    rows = list(times.rows())
    assert all(len(row) == len(HEADS) for row in rows)
    columns = zip(*rows, strict=True)
    return parse("".join(h.lines() + "".join(c) for h, c in zip(HEADS, columns, strict=True)))


def test_names_are_those_of_kafka() -> None:
    assert request_name(ApiKey.LIST_OFFSETS) == "ListOffsets"
    assert request_name(ApiKey.OFFSET_FOR_LEADER_EPOCH) == "OffsetForLeaderEpoch"


def test_requests_are_counted_by_version_and_timed_together() -> None:
    meters = RequestMeters()
    meters.of(ApiKey.PRODUCE, 9).answered(2 * MS)
    meters.of(ApiKey.PRODUCE, 12).answered_late(0, 2 * MS, 50 * MS)
    found = scraped(RecentTimes(meters))
    prefix = "kafka_network_requestmetrics_"
    for version in ("9", "12"):
        assert found.one(f"{prefix}requests_total", request="Produce", version=version) == 1
    assert found.one(f"{prefix}totaltimems_count", request="Produce") == 2

    def quantile(part: str, share: str) -> float:
        return found.one(f"{prefix}{part}", request="Produce", quantile=share)

    assert quantile("requestqueuetimems", "0.999") < 0.01
    assert 1.5 < quantile("localtimems", "0.50") <= 2.5
    # Half of the requests did not wait for others.
    assert quantile("remotetimems", "0.50") < 0.01
    assert 40 < quantile("remotetimems", "0.99") < 65
    assert 40 < quantile("totaltimems", "0.99") < 65


def test_quantiles_forget_old_requests_and_counts_do_not() -> None:
    meters = RequestMeters()
    times = RecentTimes(meters)
    meters.of(ApiKey.FETCH, 4).answered(900 * MS)
    for _ in range(SNAPSHOTS_MAX):
        times.take_snapshot()
    meters.of(ApiKey.FETCH, 4).answered(MS)
    found = scraped(times)
    prefix = "kafka_network_requestmetrics_totaltimems"
    assert found.one(prefix, request="Fetch", quantile="0.999") < 2
    assert found.one(f"{prefix}_count", request="Fetch") == 2
