"""Spark queries in the status."""

from __future__ import annotations

from spark_global.streaming.progress import Progress
from topology.status.streams import entries, sentence


def test_a_query_is_one_line_with_every_datacenter() -> None:
    published = {
        "q": [
            Progress(at_ms=0, query="id", batch=3, datacenter="JFK", records=5, seconds=1.25),
            Progress(at_ms=0, query="id", datacenter="LGA", records=0, seconds=9.0, at_least=True),
            Progress(at_ms=0, query="id", datacenter=None),
        ]
    }
    (entry,) = entries("nyc", published)
    assert (entry["group"], entry["query"], entry["batch"]) == ("q", "id", 3)
    assert sentence(entry) == (
        "stream q of nyc: JFK 5 records and 1.2 s behind, LGA 0 records and at least 9.0 s behind, "
        "unknown origin not known (published 1970-01-01T00:00:00.000Z)"
    )
