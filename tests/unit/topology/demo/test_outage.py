"""What the demo says about a datacenter that is down, from the aggregator's document."""

from __future__ import annotations

from typing import Any

from topology.demo.outage import answers_of, outage_table


def part(name: str, through_ms: int) -> dict[str, Any]:
    return {"datacenter": name, "complete_through_ms": through_ms}


def document(missing: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "strict": {"complete_through_ms": 1_000},
        "fast": {"complete_through_ms": 9_000, "missing": missing},
        "topics": [{"datacenters": [part("jfk", 9_000), part("lga", 1_000)]}],
    }


def test_the_late_datacenter_is_named_by_each_answer() -> None:
    late = {"datacenter": "lga", "reason": "its source has not answered", "since_ms": 1_000}
    answers = answers_of(document([late]))
    assert [(each.kind, each.complete_through_ms, each.says) for each in answers] == [
        ("strict", 1_000, "waits for lga"),
        ("fast", 9_000, "continues without lga"),
        ("jfk", 9_000, "up to date"),
        ("lga", 1_000, "its source has not answered, since 1970-01-01T00:00:01.000Z"),
    ]
    assert outage_table("lga", answers).rows[0] == (
        "strict",
        "1970-01-01T00:00:01.000Z",
        "waits for lga",
    )


def test_without_a_late_one_all_is_complete() -> None:
    assert [each.says for each in answers_of(document([]))[:2]] == ["complete", "complete"]
