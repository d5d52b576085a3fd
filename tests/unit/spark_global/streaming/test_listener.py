"""The lag of a query with several sources."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from local_cluster.client.model import TopicPartition
from spark_global.addresses import ClusterAddress
from spark_global.streaming.lag import DatacenterLag
from spark_global.streaming.listener import ProgressListener
from spark_global.streaming.positions import DATACENTERS, StreamPositions

NAMES = {"jfk.f": "JFK", "lga.f": "LGA", "jfk.g": "JFK"}


def positions(**offsets: int) -> dict[str, Any]:
    """By topic, without its dot."""
    topics = {name.replace("_", "."): offset for name, offset in offsets.items()}
    found = StreamPositions(
        cluster_id="c",
        topic_ids=dict.fromkeys(topics, "t"),
        offsets={TopicPartition(name, 0): offset for name, offset in topics.items()},
    )
    return found.encode()


def source(read: dict[str, Any], ends: dict[str, Any]) -> SimpleNamespace:
    named = ends | {DATACENTERS: NAMES}
    return SimpleNamespace(endOffset=json.dumps(read), latestOffset=json.dumps(named))


def test_the_lag_is_that_of_all_sources() -> None:
    listener = ProgressListener(ClusterAddress("h:1"))
    foreign = SimpleNamespace(endOffset="17", latestOffset=None)
    first = source(positions(jfk_f=4, lga_f=9), positions(jfk_f=10, lga_f=9))
    again = source(positions(jfk_f=3, lga_f=9), positions(jfk_f=10, lga_f=9))
    other = source(positions(jfk_g=1), positions(jfk_g=6))
    progress: Any = SimpleNamespace(
        progress=SimpleNamespace(
            id="q",
            batchId=1,
            timestamp="2026-11-29T12:00:00Z",
            sources=[first, foreign, again, other],
        )
    )
    listener.onQueryProgress(progress)
    assert listener.lag("q") == [
        DatacenterLag(datacenter="JFK", records=7 + 5, seconds=0.0, is_at_least=True),
        DatacenterLag(datacenter="LGA", records=0, seconds=0.0),
    ]
