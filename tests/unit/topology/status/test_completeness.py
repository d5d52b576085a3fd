"""The sentences about completeness."""

from __future__ import annotations

from topology.status.completeness import sentence, summary

HOLDER = {
    "datacenter": "jfk",
    "link": "jfk-nyc",
    "topic": "flights",
    "partition": 3,
    "reason": "an open transaction of producer id 7",
    "since_ms": 1_700_000_000_123,
}


def test_the_datacenter_that_holds_back_is_named_with_reason_and_time() -> None:
    strict = {
        "complete_through_ms": 1_700_000_000_000,
        "state": "complete_with_gaps",
        "held_back_by": HOLDER,
    }
    assert sentence(summary("nyc", {"strict": strict})) == (
        "nyc: complete with gaps through 2023-11-14T22:13:20.000Z; held back by jfk flights-3: "
        "an open transaction of producer id 7 (since 2023-11-14T22:13:20.123Z)"
    )


def test_without_a_response_nothing_is_claimed() -> None:
    assert summary("nyc", None)["state"] == "unknown"
    assert sentence(summary("nyc", None)) == "nyc: not known to be complete through any time"
